//! The lingering close.
//!
//! If a socket is closed while bytes from the client wait in it, or still arrive, the kernel answers with a reset, and
//! a reset makes the client's kernel throw away what it has received but not yet given to the client. An answer that
//! was sent early (413 to an upload) would be lost that way. So the write side is closed first, and then the client is
//! read out, within limits.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

/// How long, and how much, a client that was answered early is read out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long to wait for more.
    pub(super) idle: Duration,
    /// How long altogether.
    pub(super) total: Duration,
    /// How many bytes altogether.
    pub(super) bytes: u64,
}

/// How much is read at once.
const SCRATCH: usize = 64 << 10;

/// A connection that is being closed.
#[derive(Debug)]
pub(super) struct Linger {
    limits: Limits,
    /// Whether the client is known to be sending.
    expected: bool,
    end: Instant,
    timer: Pin<Box<Sleep>>,
    read: u64,
    scratch: Vec<u8>,
}

impl Linger {
    /// Starts to close. `expected` tells that the client has not sent all of its request yet, as far as is known. If
    /// not, lingering is only for what is already here, so that closing idle connections takes no time.
    pub(super) fn new(limits: Limits, expected: bool) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(now + limits.idle.min(limits.total)));
        Self { limits, expected, end: now + limits.total, timer, read: 0, scratch: Vec::new() }
    }

    /// Closes the write side, and reads until the client closes too or a limit is met.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, stream: &mut TcpStream) -> Poll<io::Result<()>> {
        if self.scratch.is_empty() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            self.scratch = vec![0; SCRATCH];
        }
        while self.read < self.limits.bytes {
            let mut buffer = ReadBuf::new(&mut self.scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {
                    self.read += buffer.filled().len() as u64;
                    self.expected = true;
                    self.timer.as_mut().reset(self.end.min(Instant::now() + self.limits.idle));
                }
                // The client has reset the connection, which leaves nothing to protect.
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Pending if !self.expected => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(self.timer.as_mut().poll(cx));
                    break;
                }
            }
            if Instant::now() >= self.end {
                break;
            }
        }
        tracing::debug!(read = self.read, "gave up on a client that goes on sending");
        Poll::Ready(Ok(()))
    }
}
