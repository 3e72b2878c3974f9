//! The transport that hyper reads from and writes to.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

use super::{
    linger::{Limits, Linger},
    wire::{Wire, is_placeholder},
};

/// How much a connection may write before the other tasks of its thread get a turn. A client that empties the socket
/// as fast as it is filled would hold the thread otherwise, since hyper writes as long as it can.
const BURST: usize = 8 << 20;

/// A TCP connection that sends windows of files in place of their placeholders.
#[derive(Debug)]
pub(super) struct Conn {
    stream: TcpStream,
    wire: Wire,
    limits: Limits,
    linger: Option<Linger>,
    stall: Stall,
    burst: usize,
}

impl Conn {
    /// `stall` is how long a client may take nothing of what is being sent to it.
    pub(super) fn new(stream: TcpStream, wire: Wire, stall: Duration, limits: Limits) -> Self {
        Self { stream, wire, limits, linger: None, stall: Stall::new(stall), burst: 0 }
    }

    /// Runs a call that sends, once the socket has room.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        send: impl Fn(&Wire, &TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if self.burst >= BURST {
            self.burst = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let result = match self.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => {
                    ready?;
                    let result = self.stream.try_io(Interest::WRITABLE, || send(&self.wire, &self.stream));
                    if is_would_block(&result) {
                        continue;
                    }
                    result
                }
                Poll::Pending => {
                    self.burst = 0;
                    ready!(self.stall.poll(cx));
                    // The kernel reports room only once a third of the buffer is free, which can take a slow client
                    // longer than this. Only if there is none at all has the client taken nothing.
                    let result = send(&self.wire, &self.stream);
                    if is_would_block(&result) { Err(io::ErrorKind::TimedOut.into()) } else { result }
                }
            };
            self.stall.progress();
            self.burst += result.as_ref().map_or(0, |sent| *sent);
            return Poll::Ready(result);
        }
    }

    /// Sends ordinary bytes. `more` has the kernel wait for the file that follows, so that a head does not take a
    /// packet of its own.
    fn poll_ordinary(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>], more: bool) -> Poll<io::Result<usize>> {
        self.wire.check_ordinary(slices.iter().map(|slice| slice.len()).sum())?;
        let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        let sent = ready!(self.poll_send(cx, |_, stream| {
            let send = || sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags);
            Ok(rustix::io::retry_on_intr(send)?)
        }))?;
        self.wire.wrote_ordinary(sent);
        Poll::Ready(Ok(sent))
    }
}

fn is_would_block<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.wire.close();
    }
}

impl AsyncRead for Conn {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Conn {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(first) = slices.iter().position(|slice| !slice.is_empty()) else { return Poll::Ready(Ok(0)) };
        let slices = &slices[first..];
        match slices.iter().position(|slice| is_placeholder(slice)) {
            Some(0) => this.poll_send(cx, |wire, stream| wire.send_window(&slices[0], stream)),
            Some(ahead) => this.poll_ordinary(cx, &slices[..ahead], true),
            None => this.poll_ordinary(cx, slices, false),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let expected = this.wire.unread() > 0;
        let linger = this.linger.get_or_insert_with(|| Linger::new(this.limits, expected));
        linger.poll(cx, &mut this.stream)
    }
}

/// A timer that runs while the socket takes nothing.
#[derive(Debug)]
struct Stall {
    after: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl Stall {
    fn new(after: Duration) -> Self {
        Self { after, timer: None, running: false }
    }

    fn progress(&mut self) {
        self.running = false;
    }

    /// Ready once there was no progress for long enough.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let after = self.after;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        if !self.running {
            self.running = true;
            timer.as_mut().reset(Instant::now() + after);
        }
        timer.as_mut().poll(cx)
    }
}
