//! Fetching one file: resumes at the last byte, never mixes two representations, hashes while it writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Method, Response, StatusCode, Url};
use rustix::fs::OFlags;
use tokio::task::JoinHandle;

use super::error::Error;
use super::offload;
use super::progress::Progress;
use super::retry::{Patience, Trouble};
use super::server::Server;
use crate::api::route::LINKED_SIZE;
use crate::core::error::DomainError;
use crate::core::intake::scan::{PIECE, Scan};
use crate::core::sha256::Sha256;

/// What is to be fetched.
pub(super) struct Remote {
    pub(super) url: Url,
    pub(super) name: String,
    pub(super) len: u64,
}

/// The digests that the bytes go into.
#[derive(Clone)]
pub(super) enum Digests {
    /// One file of a checkpoint.
    Checkpoint(Arc<Mutex<Scan>>, usize),
    /// A file with a hash of its own.
    Plain(Arc<Mutex<Sha256>>),
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Digests {
    fn take(&self, chunk: &[u8]) -> Result<(), DomainError> {
        match self {
            Self::Checkpoint(scan, file) => lock(scan).take(*file, chunk),
            Self::Plain(hasher) => {
                lock(hasher).update(chunk);
                Ok(())
            }
        }
    }

    fn restart(&self) {
        match self {
            Self::Checkpoint(scan, file) => lock(scan).restart(*file),
            Self::Plain(hasher) => *lock(hasher) = Sha256::new(),
        }
    }
}

/// The file that bytes are written to. Beside it lies the entity tag that its bytes belong to.
pub(super) struct Sink {
    path: PathBuf,
    file: File,
    at: u64,
    tag: Option<String>,
    digests: Digests,
}

/// The name of the file with the entity tag.
pub(super) fn tag_name(name: &str) -> String {
    format!("{name}.etag")
}

impl Sink {
    /// Opens the file for a remote one of `len` bytes, and hashes what an earlier run has left of it.
    pub(super) fn open(directory: &Path, name: &str, len: u64, digests: Digests) -> Result<Self, Error> {
        let path = directory.join(name);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let cannot = |error: io::Error| Error::io("cannot write", &path, &error);
        let file = File::options().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(&path);
        let file = file.map_err(cannot)?;
        let left = file.metadata().map_err(cannot)?.len();
        let tag = fs::read_to_string(directory.join(tag_name(name))).ok();
        let mut sink = Self { path: path.clone(), file, at: 0, tag, digests };
        if left > 0 && (left > len || sink.tag.is_none() || !sink.take_left(left)?) {
            sink.restart(None)?;
        }
        Ok(sink)
    }

    /// Bytes that are there.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// Hashes the bytes that are there already; false when they cannot be the beginning of a right file.
    fn take_left(&mut self, left: u64) -> Result<bool, Error> {
        let mut buffer = vec![0; PIECE];
        while self.at < left {
            let most = usize::try_from(left - self.at).map_or(PIECE, |left| left.min(PIECE));
            self.file
                .read_exact_at(&mut buffer[..most], self.at)
                .map_err(|error| Error::io("cannot read", &self.path, &error))?;
            if self.digests.take(&buffer[..most]).is_err() {
                return Ok(false);
            }
            self.at += most as u64;
        }
        Ok(true)
    }

    /// Begins anew with the representation that `tag` names.
    fn restart(&mut self, tag: Option<String>) -> Result<(), Error> {
        let cannot = |error: io::Error| Error::io("cannot write", &self.path, &error);
        let mut beside = self.path.clone().into_os_string();
        beside.push(tag_name(""));
        // The tag goes first, so that it never stands beside bytes that it does not belong to.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        self.file.set_len(0).map_err(cannot)?;
        if let Some(tag) = &tag {
            fs::write(&beside, tag).map_err(cannot)?;
        }
        (self.at, self.tag) = (0, tag);
        self.digests.restart();
        Ok(())
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.digests.take(chunk)?;
        let written = self.file.write_all_at(chunk, self.at);
        written.map_err(|error| Error::io("cannot write", &self.path, &error))?;
        self.at += chunk.len() as u64;
        Ok(())
    }

    fn seal(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|error| Error::io("cannot write", &self.path, &error))
    }
}

/// Transfers of one pull.
pub(super) struct Fetch<'a> {
    server: &'a Server,
    progress: &'a dyn Progress,
    received: AtomicU64,
}

impl<'a> Fetch<'a> {
    pub(super) fn new(server: &'a Server, progress: &'a dyn Progress) -> Self {
        Self { server, progress, received: AtomicU64::new(0) }
    }

    /// Bytes of bodies that came over the wire.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Fetches a file to its end; `behind` are the bytes of the files before it.
    pub(super) async fn file(&self, remote: &Remote, sink: Sink, behind: u64) -> Result<(), Error> {
        self.progress.at(behind + sink.at);
        let sink = Arc::new(Mutex::new(sink));
        let mut patience = Patience::default();
        loop {
            let before = lock(&sink).at;
            if before == remote.len {
                break;
            }
            let outcome = self.part(remote, &sink, behind).await;
            let after = lock(&sink).at;
            if after > before {
                patience.progressed();
            }
            if let Err(trouble) = outcome {
                patience.wait(trouble, self.progress).await?;
            }
        }
        offload::blocking(move || lock(&sink).seal()).await
    }

    /// One request for what is missing.
    async fn part(&self, remote: &Remote, sink: &Arc<Mutex<Sink>>, behind: u64) -> Result<(), Trouble> {
        let (at, tag) = {
            let sink = lock(sink);
            (sink.at, sink.tag.clone())
        };
        let mut request = self.server.request(Method::GET, remote.url.clone());
        // Without a strong tag nothing says that the rest belongs to what is here.
        if at > 0
            && let Some(tag) = &tag
        {
            request = request.header(RANGE, format!("bytes={at}-")).header(IF_RANGE, tag);
        }
        let mut answer = match self.server.ask(request).await {
            Err(Trouble::Final(error)) if error.problem().status == 416 && at > 0 => {
                lock(sink).restart(None)?;
                return Err(changed(&remote.name));
            }
            answer => answer?,
        };
        let continues = answer.status() == StatusCode::PARTIAL_CONTENT
            && range(&answer) == Some((at, remote.len))
            && strong_tag(&answer).is_none_or(|now| Some(now) == tag.as_deref());
        match answer.status() {
            StatusCode::PARTIAL_CONTENT if continues => {}
            StatusCode::PARTIAL_CONTENT => {
                lock(sink).restart(None)?;
                return Err(changed(&remote.name));
            }
            StatusCode::OK => {
                if at > 0 {
                    self.progress.note(&format!("{} comes from its first byte again", remote.name));
                }
                lock(sink).restart(strong_tag(&answer).map(str::to_owned))?;
            }
            status => {
                let message = format!("the server answers {status} where bytes were asked for");
                return Err(Error::unavailable(message, "Check the proxies on the way to the server.").into());
            }
        }
        let wanted = remote.len - if continues { at } else { 0 };
        if length(&answer).is_some_and(|told| told != wanted) {
            return Err(wrong_length(remote).into());
        }
        self.receive(&mut answer, remote, sink, behind).await
    }

    /// Takes a body piece by piece: one is hashed and written while the next one comes in.
    async fn receive(
        &self,
        answer: &mut Response,
        remote: &Remote,
        sink: &Arc<Mutex<Sink>>,
        behind: u64,
    ) -> Result<(), Trouble> {
        let mut at = lock(sink).at;
        let mut buffer = BytesMut::with_capacity(2 * PIECE);
        let mut writing: Option<JoinHandle<Result<(), Error>>> = None;
        let end = loop {
            match self.server.chunk(answer).await {
                Ok(Some(chunk)) => {
                    at += chunk.len() as u64;
                    self.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    if at > remote.len {
                        break Err(wrong_length(remote).into());
                    }
                    self.progress.at(behind + at);
                    buffer.extend_from_slice(&chunk);
                }
                Ok(None) if at < remote.len => break Err(cut_short(remote, at)),
                Ok(None) => break Ok(()),
                Err(trouble) => break Err(trouble),
            }
            if buffer.len() >= PIECE {
                // One at a time: two that wait for the sink would not get it in the order of their bytes.
                if let Some(before) = writing.take() {
                    offload::done(before).await?;
                }
                writing = Some(write(sink, buffer.split().freeze()));
            }
        };
        // What has come before a break counts, whatever the break was.
        if let Some(before) = writing {
            offload::done(before).await?;
        }
        offload::done(write(sink, buffer.freeze())).await?;
        end
    }
}

fn write(sink: &Arc<Mutex<Sink>>, piece: Bytes) -> JoinHandle<Result<(), Error>> {
    let sink = Arc::clone(sink);
    offload::start(move || lock(&sink).write(&piece))
}

/// The first byte and the whole length that a `Content-Range` tells.
fn range(answer: &Response) -> Option<(u64, u64)> {
    parse_range(answer.headers().get(CONTENT_RANGE)?.to_str().ok()?)
}

fn parse_range(value: &str) -> Option<(u64, u64)> {
    let (span, whole) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (first, last, whole): (u64, u64, u64) = (first.parse().ok()?, last.parse().ok()?, whole.parse().ok()?);
    (first <= last && last.checked_add(1)? == whole).then_some((first, whole))
}

/// The entity tag, if equal tags mean equal bytes.
fn strong_tag(answer: &Response) -> Option<&str> {
    answer.headers().get(ETAG)?.to_str().ok().filter(|tag| tag.starts_with('"'))
}

/// The length of a body that is on its way.
fn length(answer: &Response) -> Option<u64> {
    number(answer.headers().get(CONTENT_LENGTH)?)
}

/// The length of the whole that a HEAD has asked about, also where a proxy has taken its Content-Length off.
pub(super) fn whole_length(answer: &Response) -> Option<u64> {
    answer.headers().get(LINKED_SIZE).and_then(number).or_else(|| length(answer))
}

fn number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.parse().ok()
}

fn changed(name: &str) -> Trouble {
    let error = Error::unavailable(format!("{name} cannot be continued where it stopped"), "Try again.");
    Trouble::Passing { error, after: None }
}

fn cut_short(remote: &Remote, at: u64) -> Trouble {
    let message = format!("received {at} of {} bytes of {}", remote.len, remote.name);
    Trouble::Passing { error: Error::unavailable(message, "Try again: it continues where it stopped."), after: None }
}

fn wrong_length(remote: &Remote) -> Error {
    DomainError::integrity("the server sends another number of bytes than it has announced")
        .field("file", &*remote.name)
        .field("expected", remote.len)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_must_reach_to_the_end() {
        assert_eq!(parse_range("bytes 5-9/10"), Some((5, 10)));
        for value in
            ["bytes 5-8/10", "bytes 9-5/10", "bytes */10", "bytes 5-9/*", "5-9/10", "bytes 0-18446744073709551615/0"]
        {
            assert_eq!(parse_range(value), None, "{value}");
        }
    }

    #[test]
    fn what_is_left_counts_only_beside_its_tag() {
        let place = tempfile::tempdir().unwrap();
        let hasher = Arc::new(Mutex::new(Sha256::new()));
        let open = || Sink::open(place.path(), "weights.safetensors", 10, Digests::Plain(Arc::clone(&hasher))).unwrap();
        let mut sink = open();
        sink.restart(Some("\"a\"".to_owned())).unwrap();
        sink.write(b"01234").unwrap();
        drop(sink);
        *lock(&hasher) = Sha256::new();
        let sink = open();
        assert_eq!((sink.at(), sink.tag.as_deref()), (5, Some("\"a\"")));
        assert_eq!(lock(&hasher).clone().finalize(), Sha256::digest(b"01234"));
        fs::remove_file(place.path().join(tag_name("weights.safetensors"))).unwrap();
        let sink = open();
        assert_eq!((sink.at(), sink.tag.as_deref()), (0, None));
        assert_eq!(fs::metadata(place.path().join("weights.safetensors")).unwrap().len(), 0);
        assert!(lock(&hasher).is_empty());
    }
}
