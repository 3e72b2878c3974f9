//! A blob that is being written: large pieces by a thread of its own, so that a disk and a hash do not wait for each other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use rustix::fs::{Advice, FallocateFlags};

use super::key::BlobKey;
use super::local::{Stamp, sync_dir};

/// Bytes after which the kernel is asked to start writing back, so that the final sync has little left to do.
const WRITE_BACK: u64 = 8 << 20;

/// Pieces below this size are written at once: handing them over would cost as much.
const LARGE: usize = 64 << 10;

/// Pieces that wait for the disk. A piece is half a mebibyte at most.
const QUEUE: usize = 4;

/// A blob that is being written.
#[derive(Debug)]
pub struct StagedBlob {
    file: Arc<File>,
    shelf: PathBuf,
    key: BlobKey,
    len: u64,
    writer: Option<Writer>,
    synced: u64,
    /// The directory entry is durable.
    entered: bool,
    /// The disk has refused something, so the file is not what it should be.
    broken: bool,
}

/// A thread that writes what it is handed, in order, until nothing more can come.
#[derive(Debug)]
struct Writer {
    queue: SyncSender<Bytes>,
    thread: JoinHandle<io::Result<()>>,
}

impl StagedBlob {
    /// A new file without bytes.
    pub(super) fn begin(file: File, shelf: PathBuf, key: BlobKey) -> Self {
        Self { file: Arc::new(file), shelf, key, len: 0, writer: None, synced: 0, entered: false, broken: false }
    }

    /// A file of which `len` bytes are durable.
    pub(super) fn continued(file: File, shelf: PathBuf, key: BlobKey, len: u64) -> Self {
        Self { file: Arc::new(file), shelf, key, len, writer: None, synced: len, entered: true, broken: false }
    }

    /// Where it will stay.
    #[must_use]
    pub const fn key(&self) -> &BlobKey {
        &self.key
    }

    /// Bytes taken so far.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True before the first byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reserves space for the whole file, so that a full disk is known before the bytes are sent.
    ///
    /// # Errors
    /// When there is not enough space.
    pub fn reserve(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            // Not every file system can; then the write itself will tell.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) | Ok(()) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Appends bytes. They may still be on their way to the file when this returns; whatever looks at the file or makes
    /// it durable waits for them. Blocks while too many wait.
    ///
    /// # Errors
    /// When the disk has refused these bytes or earlier ones; then nothing that came since the last sync counts.
    pub fn append(&mut self, bytes: Bytes) -> io::Result<()> {
        let len = bytes.len() as u64;
        if self.writer.is_none() {
            self.flush()?;
            if bytes.len() < LARGE {
                self.broken = true;
                self.file.write_all_at(&bytes, self.len)?;
                (self.broken, self.len) = (false, self.len + len);
                return Ok(());
            }
            self.writer = Some(Writer::start(Arc::clone(&self.file), self.len)?);
        }
        if let Some(writer) = &self.writer
            && writer.queue.send(bytes).is_err()
        {
            // It has ended before its time, and says why.
            return self.flush();
        }
        self.len += len;
        Ok(())
    }

    /// Waits until everything taken is in the file, and fails for ever once something is not.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(Writer { queue, thread }) = self.writer.take() {
            drop(queue);
            self.broken = true;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer of a file has panicked")))?;
            self.broken = false;
        }
        if self.broken { Err(io::Error::other("the disk has refused a part of the file")) } else { Ok(()) }
    }

    /// Makes everything taken so far durable, the directory entry included.
    ///
    /// # Errors
    /// When the disk fails; then nothing may be acknowledged.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.synced < self.len || !self.entered {
            self.file.sync_data()?;
            self.synced = self.len;
        }
        self.enter()
    }

    /// Makes the directory entry durable.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn enter(&mut self) -> io::Result<()> {
        if !self.entered {
            sync_dir(&self.shelf)?;
            self.entered = true;
        }
        Ok(())
    }

    /// Reads back bytes that were taken.
    ///
    /// # Errors
    /// When they are not there.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.flush()?;
        self.file.read_exact_at(buffer, offset)
    }

    /// Makes bytes durable beside a writer that goes on: a handle for another thread, with everything taken so far.
    ///
    /// # Errors
    /// When the disk fails or the system has no more handles.
    pub fn handle(&mut self) -> io::Result<File> {
        self.flush()?;
        self.file.try_clone()
    }

    /// What the file looks like now, to be trusted later as long as it looks the same.
    ///
    /// # Errors
    /// When the file system does not answer.
    pub fn stamp(&mut self) -> io::Result<Stamp> {
        self.flush()?;
        Stamp::of(&self.file)
    }
}

impl Writer {
    fn start(file: Arc<File>, at: u64) -> io::Result<Self> {
        let (queue, pieces) = sync_channel::<Bytes>(QUEUE);
        let write = move || {
            let (mut at, mut written_back) = (at, at);
            for piece in pieces {
                file.write_all_at(&piece, at)?;
                at += piece.len() as u64;
                if at - written_back >= WRITE_BACK {
                    // DONTNEED starts write-back of the range without waiting; pages under write-back stay in the
                    // cache, so the first reader still finds them. It is advice: a failure changes only speed.
                    let len = std::num::NonZeroU64::new(at - written_back);
                    let _ = rustix::fs::fadvise(&file, written_back, len, Advice::DontNeed);
                    written_back = at;
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("blob-writer".to_owned()).spawn(write)?;
        Ok(Self { queue, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_lie_in_the_file_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(dir.path().join("b")).unwrap();
        let key = BlobKey::from_bits([7; 16]);
        let mut staged = StagedBlob::begin(file, dir.path().to_owned(), key);
        let mut expected = Vec::new();
        for (index, len) in (0u8..).zip([10, LARGE, 1, 3 * LARGE, 0, 17, LARGE + 1]) {
            let piece = vec![index; len];
            expected.extend_from_slice(&piece);
            staged.append(piece.into()).unwrap();
            if index == 3 {
                let mut back = vec![0; expected.len()];
                staged.read_at(&mut back, 0).unwrap();
                assert!(back == expected);
            }
        }
        assert_eq!(staged.len(), expected.len() as u64);
        staged.sync().unwrap();
        assert!(std::fs::read(dir.path().join("b")).unwrap() == expected);
    }

    #[test]
    fn what_the_disk_refuses_is_heard_of_before_anything_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        std::fs::write(&path, b"").unwrap();
        // A file that cannot be written stands for a disk that will not take it.
        let file = File::open(&path).unwrap();
        let mut staged = StagedBlob::begin(file, dir.path().to_owned(), BlobKey::from_bits([7; 16]));
        let mut taken = Ok(());
        for _ in 0..20 {
            taken = taken.and_then(|()| staged.append(vec![1; LARGE].into()));
        }
        assert!(taken.and_then(|()| staged.sync()).is_err());
    }
}
