//! The sending side of a directory: reads pieces for the wire and hashes each byte once on the way.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use tokio::task::{JoinHandle, spawn_blocking};

use super::directory::{Directory, Reader};
use super::error::Error;
use super::progress::Progress;
use crate::core::error::DomainError;
use crate::core::intake::Verified;
use crate::core::intake::scan::{PIECE, Scan};
use crate::core::limits::Limits;
use crate::core::safetensors::decoder::Decoder;

/// Bytes handed to the connection at a time: small enough that even a slow line moves one within the idle timeout.
const SEND_PIECE: usize = 256 << 10;

/// A directory that is being sent.
pub(super) struct Feed {
    directory: Directory,
    reader: Reader,
    scan: Scan,
    /// Why the last piece could not be read; the connection only learns that there is none.
    failure: Option<Error>,
}

/// What the sender of one body and whoever waits for its answer tell each other.
#[derive(Default)]
pub(super) struct Gauge {
    handed: AtomicU64,
    taken: AtomicU64,
    stopped: AtomicBool,
}

impl Gauge {
    /// Bytes that the connection was given.
    pub(super) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Relaxed)
    }

    /// Bytes of these that it has used up, since it asked for more.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Ends the body, also where the connection lives on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl Feed {
    /// Looks at the front of each weight file, so that a directory which cannot be right costs no transfer.
    pub(super) fn open(directory: Directory) -> Result<Self, Error> {
        let mut reader = directory.reader();
        let mut survey = directory.scan();
        let mut buffer = vec![0; PIECE];
        for (index, file) in directory.files().iter().enumerate().take(directory.header().weight_files.len()) {
            let in_file = |error: DomainError| error.field("file", &*file.name);
            let mut decoder = Decoder::new(Some(file.len), Limits::DEFAULT);
            while decoder.container().is_none() {
                let Some(chunk) = reader.next(index, decoder.seen(), &mut buffer)? else { break };
                decoder.push(chunk).map_err(in_file)?;
            }
            match decoder.container() {
                Some(container) => survey.place(index, container)?,
                None => drop(decoder.finish().map_err(in_file)?),
            }
        }
        Ok(Self { scan: directory.scan(), reader, directory, failure: None })
    }

    /// Hashes each file up to its offset without sending it.
    pub(super) fn catch_up_all(&mut self, offsets: &[u64], progress: &dyn Progress) -> Result<(), Error> {
        let mut behind = 0;
        for (file, offset) in offsets.iter().enumerate() {
            self.catch_up(file, *offset, |at| progress.at(behind + at))?;
            behind += offset;
        }
        Ok(())
    }

    fn catch_up(&mut self, file: usize, offset: u64, told: impl Fn(u64)) -> Result<(), Error> {
        if self.scan.seen(file) >= offset {
            return Ok(());
        }
        let mut buffer = vec![0; PIECE];
        while self.scan.seen(file) < offset {
            let seen = self.scan.seen(file);
            let most = usize::try_from(offset - seen).map_or(PIECE, |left| left.min(PIECE));
            let Some(chunk) = self.reader.next(file, seen, &mut buffer[..most])? else { break };
            self.scan.take(file, chunk)?;
            told(self.scan.seen(file));
        }
        Ok(())
    }

    /// The bytes of a file from `offset` on; `None` at its end.
    fn piece(&mut self, file: usize, offset: u64) -> Result<Option<Bytes>, Error> {
        self.catch_up(file, offset, |_| ())?;
        let mut buffer = BytesMut::zeroed(SEND_PIECE);
        let Some(len) = self.reader.next(file, offset, &mut buffer)?.map(<[u8]>::len) else { return Ok(None) };
        buffer.truncate(len);
        // After a broken connection some bytes go out a second time; they are hashed once.
        let known = usize::try_from(self.scan.seen(file) - offset).unwrap_or(usize::MAX);
        if known < len {
            self.scan.take(file, &buffer[known..])?;
        }
        Ok(Some(buffer.freeze()))
    }

    /// Hashes what is left, and judges the directory.
    pub(super) fn settle(&mut self) -> Result<Verified, Error> {
        for file in 0..self.directory.files().len() {
            self.catch_up(file, self.directory.files()[file].len, |_| ())?;
        }
        let Self { directory, reader, scan, .. } = self;
        directory.settle(scan, reader, None)
    }

    /// Why the last body ended early, if the reason lies here.
    pub(super) const fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}

/// Locks the feed. Whoever panicked while holding it left at most a piece unsent, which the server would notice.
pub(super) fn lock(feed: &Mutex<Feed>) -> MutexGuard<'_, Feed> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Position {
    feed: Arc<Mutex<Feed>>,
    gauge: Arc<Gauge>,
    file: usize,
    /// Read and hashed while the connection is busy with the piece before it.
    ahead: JoinHandle<Result<Option<Bytes>, Error>>,
    offset: u64,
    handed: u64,
}

fn read_ahead(feed: &Arc<Mutex<Feed>>, file: usize, offset: u64) -> JoinHandle<Result<Option<Bytes>, Error>> {
    let feed = Arc::clone(feed);
    spawn_blocking(move || lock(&feed).piece(file, offset))
}

/// The bytes of a file from `offset` to its end, as a body.
pub(super) fn body(
    feed: &Arc<Mutex<Feed>>,
    file: usize,
    offset: u64,
    gauge: &Arc<Gauge>,
) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    let start = Position {
        ahead: read_ahead(feed, file, offset),
        feed: Arc::clone(feed),
        gauge: Arc::clone(gauge),
        file,
        offset,
        handed: 0,
    };
    stream::try_unfold(start, async |mut at| {
        at.gauge.taken.fetch_add(at.handed, Ordering::Relaxed);
        if at.gauge.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("no longer wanted"));
        }
        let piece = match (&mut at.ahead).await.map_err(io::Error::other)? {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(None),
            Err(error) => {
                let told = io::Error::other(error.to_string());
                lock(&at.feed).failure = Some(error);
                return Err(told);
            }
        };
        at.handed = piece.len() as u64;
        at.gauge.handed.fetch_add(at.handed, Ordering::Relaxed);
        at.offset += at.handed;
        at.ahead = read_ahead(&at.feed, at.file, at.offset);
        Ok(Some((piece, at)))
    })
}
