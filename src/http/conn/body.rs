//! Response bodies made of bytes and of parts of files.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::JoinHandle;

use super::{
    pages,
    wire::{WINDOW, Wire},
};

/// Below this, copying a part of a file costs less than a system call of its own.
const SMALL: u64 = 64 << 10;

/// How much of a file is read at a time where `sendfile` is not to be had. It stays in the processor's cache.
const PIECE: u64 = 256 << 10;

/// A piece of a response body.
#[derive(Debug)]
pub enum Segment {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A part of a file.
    File {
        /// The file, open for reading.
        file: Arc<File>,
        /// Where the part starts.
        offset: u64,
        /// How long it is. The file must reach that far.
        len: u64,
    },
}

/// A last check, made before the end of a body is released.
pub type BeforeLast = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Builds a response body from segments.
///
/// Files are sent by `sendfile` if `wire` is given, the handle of the connection found in the extensions of the request
/// that is being answered. Otherwise they are read.
///
/// `before_last` is called once, on the runtime, just before the last bytes are released; if it fails, the connection
/// breaks and the client cannot take what it has for the whole. It is not called where no body is sent (`HEAD`), nor
/// for an empty one.
pub fn body(wire: Option<Wire>, segments: Vec<Segment>, before_last: Option<BeforeLast>) -> Body {
    let segments: VecDeque<_> = segments.into_iter().filter(|segment| segment.len() > 0).collect();
    let left = segments.iter().map(Segment::len).sum();
    Body::new(Pieces { wire, segments, left, before_last, begun: false, job: None, advised: 0 })
}

impl Segment {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

struct Pieces {
    wire: Option<Wire>,
    segments: VecDeque<Segment>,
    left: u64,
    before_last: Option<BeforeLast>,
    /// Whether anything was released yet.
    begun: bool,
    /// The piece that the blocking pool is bringing from the disk.
    job: Option<JoinHandle<io::Result<Piece>>>,
    /// Up to where the kernel was asked to read the first segment.
    advised: u64,
}

/// What can be released next of the first segment.
enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// So much of the file, which is in memory. The second is the new [`Pieces::advised`].
    Window(usize, u64),
}

impl Pieces {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
        if !self.begun {
            self.begun = true;
            self.wire.as_ref().map_or(Ok(()), |wire| wire.begin(self.left))?;
        }
        if self.job.is_none()
            && let Some(piece) = self.next_piece()?
        {
            return Poll::Ready(Ok(Some(piece)));
        }
        let Some(job) = &mut self.job else { return Poll::Ready(Ok(None)) };
        let piece = ready!(Pin::new(job).poll(cx)).map_err(io::Error::other);
        self.job = None;
        Poll::Ready(piece?.map(Some))
    }

    /// The next piece if it is in memory. If it is not, a job to bring it there is started.
    fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let (file, offset, len) = match self.segments.front() {
            None => return Ok(None),
            Some(Segment::Bytes(bytes)) => return Ok(Some(Piece::Bytes(bytes.clone()))),
            Some(Segment::File { file, offset, len }) => (file, *offset, *len),
        };
        let (advised, end) = (self.advised, offset + len);
        if self.wire.is_some() && len > SMALL {
            let len = clamp(len, WINDOW as u64);
            if pages::resident(file, offset, len)? {
                return Ok(Some(Piece::Window(len, advised)));
            }
            let file = Arc::clone(file);
            let warm = move || Ok(Piece::Window(len, pages::warm(&file, offset, len, advised, end)?));
            self.job = Some(tokio::task::spawn_blocking(warm));
        } else {
            let len = clamp(len, PIECE);
            if let Some(bytes) = pages::read_resident(file, offset, len)? {
                return Ok(Some(Piece::Bytes(bytes)));
            }
            let file = Arc::clone(file);
            let read = move || Ok(Piece::Bytes(pages::read(&file, offset, len)?));
            self.job = Some(tokio::task::spawn_blocking(read));
        }
        Ok(None)
    }

    /// Takes the piece off the first segment and makes the bytes that stand for it.
    fn release(&mut self, piece: Piece) -> io::Result<Bytes> {
        let len = match &piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Window(len, _) => *len,
        };
        if len as u64 == self.left
            && let Some(check) = self.before_last.take()
        {
            check()?;
        }
        let bytes = match (piece, self.segments.front(), &self.wire) {
            (Piece::Window(_, advised), Some(Segment::File { file, offset, .. }), Some(wire)) => {
                self.advised = advised;
                wire.window(Arc::clone(file), *offset, len)
            }
            (Piece::Bytes(bytes), _, wire) => {
                if let Some(wire) = wire {
                    wire.owe(len);
                }
                bytes
            }
            (Piece::Window(..), ..) => return Err(io::Error::other("a window without its file or connection")),
        };
        self.left -= len as u64;
        match self.segments.front_mut() {
            Some(Segment::File { offset, len: rest, .. }) if *rest > len as u64 => {
                *offset += len as u64;
                *rest -= len as u64;
            }
            _ => {
                self.segments.pop_front();
                self.advised = 0;
            }
        }
        Ok(bytes)
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match ready!(self.poll_piece(cx)) {
            Ok(None) => return Poll::Ready(None),
            Ok(Some(piece)) => self.release(piece),
            Err(error) => Err(error),
        };
        if let Err(error) = &piece {
            tracing::warn!(%error, left = self.left, "a response body failed");
            // Should anyone poll again, nothing more comes. The body then lacks what `left` still counts.
            self.segments.clear();
        }
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The smaller of the two, as a length in memory.
fn clamp(len: u64, most: u64) -> usize {
    usize::try_from(len.min(most)).unwrap_or(usize::MAX)
}
