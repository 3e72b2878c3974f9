//! What a response body and the connection that it leaves by share: the windows of files still to be sent.
//!
//! A window is queued by the body ([`Wire::window`]) and taken by the transport ([`Wire::send_window`]). Between them a
//! placeholder travels through hyper: a [`Bytes`] of the window's length that points into [`REGION`], which holds
//! nothing and is never read. These rules keep its zeros from being sent as data:
//!
//! * A body queues windows only once its answer was given to hyper, and only if that is as long as the body itself
//!   ([`Wire::begin`]). Something that reads the body on the way there gets an error, and so does the client if the
//!   body was wrapped in one of another length.
//! * A slice of the region is sent only as the window that is next, from the very address at which that window goes on,
//!   and only if it is exactly as long as what remains of it. Addresses differ from window to window.
//! * Ordinary bytes may go ahead of a window only as far as the body put them there, plus the room of a message head.
//!   Something that passes on a copy of a placeholder is caught here, if not by the next rule.
//! * A placeholder that is dropped before its window was sent ([`Placeholder::drop`]) fails the connection: somebody
//!   copied its bytes, or left them out.
//! * A file that ends early fails the connection.
//!
//! A failed connection sends nothing more, and lets go of the files at once.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::fd::AsFd,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

/// The most of a file that is sent as one window. Larger ones gain nothing (measured), and it is what one poll of a
/// connection may copy before other connections get their turn.
pub(super) const WINDOW: usize = 1 << 20;

/// Consecutive windows start at different addresses of the region, so that none can be taken for its neighbour.
const SPREAD: usize = 4096;

/// What a message head and the framing of chunks may take in front of a window.
const HEAD_ROOM: u64 = 64 << 10;

/// Where placeholders point. Allocated zeroed and never touched, so it costs address space but no memory.
static REGION: LazyLock<&'static [u8]> = LazyLock::new(|| Box::leak(vec![0; WINDOW + SPREAD].into_boxed_slice()));

/// The handle of a connection, found in the extensions of each request that came over it.
#[derive(Clone, Debug)]
pub struct Wire(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The most that is left to read of the body of the request being answered. Zero if it was read whole.
    unread: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    windows: VecDeque<Window>,
    /// How many windows were queued so far. The number of a window is the count before it.
    queued: u64,
    /// How many windows were sent whole.
    sent: u64,
    /// Ordinary bytes that bodies have given to hyper and that are not written yet, at most.
    owed: u64,
    /// How long the body of the answer is that was given to hyper, if that is known.
    answer: Option<u64>,
    /// Why the connection must not send any more.
    failed: Option<&'static str>,
}

/// A part of a file that waits to be sent.
#[derive(Debug)]
struct Window {
    file: Arc<File>,
    offset: u64,
    left: usize,
    /// The address of the placeholder for what is left.
    address: usize,
    /// How many ordinary bytes may still go ahead of it.
    room: u64,
}

/// The owner of a placeholder's bytes. Tells the queue when hyper has let go of them.
#[derive(Debug)]
struct Placeholder {
    wire: Wire,
    number: u64,
    bytes: &'static [u8],
}

impl AsRef<[u8]> for Placeholder {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let mut queue = self.wire.queue();
        if self.number >= queue.sent {
            queue.fail("a window of a file was dropped unsent");
        }
    }
}

/// Whether these bytes are a placeholder, whole or in part.
pub(super) fn is_placeholder(bytes: &[u8]) -> bool {
    let start = REGION.as_ptr().addr();
    (start..start + REGION.len()).contains(&bytes.as_ptr().addr())
}

impl Wire {
    /// The handle of a new connection.
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the length of the body of the answer that hyper sends from now on.
    pub(super) fn set_answer(&self, len: Option<u64>) {
        self.queue().answer = len;
    }

    /// Whether a body of this length, about to queue its first window, is the one that hyper is sending.
    pub(super) fn begin(&self, len: u64) -> io::Result<()> {
        let mut queue = self.queue();
        if queue.answer == Some(len) { Ok(()) } else { Err(queue.fail("a body was read that is not the answer")) }
    }

    /// Queues a part of a file, at most [`WINDOW`] long, and returns the placeholder to be given to hyper.
    pub(super) fn window(&self, file: Arc<File>, offset: u64, len: usize) -> Bytes {
        let mut queue = self.queue();
        let number = queue.queued;
        queue.queued += 1;
        let start = usize::try_from(number % SPREAD as u64).unwrap_or_default();
        let bytes = &REGION[start..start + len];
        if queue.failed.is_none() {
            let room = queue.owed + HEAD_ROOM;
            queue.windows.push_back(Window { file, offset, left: len, address: bytes.as_ptr().addr(), room });
        }
        drop(queue);
        Bytes::from_owner(Placeholder { wire: self.clone(), number, bytes })
    }

    /// Notes that a body gives this many ordinary bytes to hyper.
    pub(super) fn owe(&self, len: usize) {
        self.queue().owed += len as u64;
    }

    /// Whether this many ordinary bytes may be written now.
    pub(super) fn check_ordinary(&self, len: usize) -> io::Result<()> {
        let mut queue = self.queue();
        queue.check()?;
        match queue.windows.front() {
            Some(window) if len as u64 > window.room => Err(queue.fail("unexpected bytes ahead of a window of a file")),
            _ => Ok(()),
        }
    }

    /// Notes that this many ordinary bytes were written.
    pub(super) fn wrote_ordinary(&self, len: usize) {
        let mut queue = self.queue();
        queue.owed = queue.owed.saturating_sub(len as u64);
        if let Some(window) = queue.windows.front_mut() {
            window.room = window.room.saturating_sub(len as u64);
        }
    }

    /// Sends what the socket takes of the window that this placeholder stands for.
    pub(super) fn send_window(&self, placeholder: &[u8], socket: impl AsFd) -> io::Result<usize> {
        let mut queue = self.queue();
        queue.check()?;
        let Some(window) = queue.windows.front_mut() else {
            return Err(queue.fail("a placeholder without a window of a file"));
        };
        if (placeholder.as_ptr().addr(), placeholder.len()) != (window.address, window.left) {
            return Err(queue.fail("a placeholder that is not of the next window of a file"));
        }
        // The call advances the offset itself.
        let sent = rustix::io::retry_on_intr(|| {
            rustix::fs::sendfile(&socket, &*window.file, Some(&mut window.offset), window.left)
        })?;
        if sent == 0 {
            return Err(queue.fail("a file ended before its length"));
        }
        window.left -= sent;
        window.address += sent;
        if window.left == 0 {
            queue.windows.pop_front();
            queue.sent += 1;
        }
        Ok(sent)
    }

    /// Lets go of all that is queued, since the connection is gone.
    pub(super) fn close(&self) {
        self.queue().fail("the connection is closed");
    }

    /// Notes how much of the request's body is left to read, at most.
    pub(super) fn set_unread(&self, left: u64) {
        self.0.unread.store(left, Ordering::Relaxed);
    }

    /// How much of the body of the last request was not read, at most.
    pub(super) fn unread(&self) -> u64 {
        self.0.unread.load(Ordering::Relaxed)
    }
}

impl Queue {
    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    fn fail(&mut self, why: &'static str) -> io::Error {
        self.windows.clear();
        io::Error::other(*self.failed.get_or_insert(why))
    }
}
