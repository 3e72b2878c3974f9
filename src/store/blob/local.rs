//! Blobs as files in one directory, made durable by hand.
//!
//! `object_store`'s local backend neither syncs by default nor reads fast, so this path is our own: positioned writes,
//! write-back that starts early, `fdatasync` of the file and `fsync` of its directory before anything refers to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FallocateFlags};

use super::key::BlobKey;

/// Bytes after which the kernel is asked to start writing back, so that the final sync has little left to do.
const WRITE_BACK: u64 = 8 << 20;

/// A directory of blobs.
#[derive(Clone, Debug)]
pub struct LocalBlobs {
    root: PathBuf,
}

/// What a file looks like to the file system. Every change of its bytes through the file system changes the stamp, so
/// bytes that were once verified stay verified as long as the stamp stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(String);

impl Stamp {
    /// The stamp of an open file.
    ///
    /// # Errors
    /// When the file system does not answer.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from_metadata(&file.metadata()?))
    }

    /// The stamp of a file that was already asked.
    #[must_use]
    pub fn from_metadata(data: &fs::Metadata) -> Self {
        Self(format!("{}:{}:{}.{:09}", data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
    }

    /// The stamp as it lies in a row.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl LocalBlobs {
    /// Opens the directory, and makes it if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        for shelf in 0..=255u8 {
            fs::create_dir_all(root.join(format!("{shelf:02x}")))?;
        }
        sync_dir(root)?;
        if let Some(parent) = root.parent() {
            sync_dir(parent)?;
        }
        Ok(Self { root: root.to_owned() })
    }

    fn shelf(&self, key: &BlobKey) -> PathBuf {
        self.root.join(&key.as_str()[..2])
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        self.shelf(key).join(key.as_str())
    }

    /// Begins a new blob.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(&self, key: BlobKey) -> io::Result<StagedBlob> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path(&key))?;
        Ok(StagedBlob { file, shelf: self.shelf(&key), key, len: 0, written_back: 0, synced: 0, entered: false })
    }

    /// Continues a blob of which `len` bytes are durable; what lies behind them is dropped. Also tells what the file
    /// looked like before that.
    ///
    /// # Errors
    /// When the file is gone or shorter than that.
    pub fn reopen(&self, key: BlobKey, len: u64) -> io::Result<(StagedBlob, Stamp)> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(&key))?;
        let stamp = Stamp::of(&file)?;
        match file.metadata()?.len() {
            size if size < len => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a staged file is shorter than acknowledged"));
            }
            size if size > len => file.set_len(len)?,
            _ => {}
        }
        let shelf = self.shelf(&key);
        Ok((StagedBlob { file, shelf, key, len, written_back: len, synced: len, entered: true }, stamp))
    }

    /// Opens a blob for reading.
    ///
    /// # Errors
    /// When it is not there.
    pub fn read(&self, key: &BlobKey) -> io::Result<File> {
        File::open(self.path(key))
    }

    /// Bytes of a blob, without opening it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn size(&self, key: &BlobKey) -> io::Result<u64> {
        fs::metadata(self.path(key)).map(|data| data.len())
    }

    /// Removes a blob; one that is gone already is fine.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove(&self, key: &BlobKey) -> io::Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The keys on one of the 256 shelves.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn keys_on(&self, shelf: u8) -> io::Result<Vec<BlobKey>> {
        let mut keys = Vec::new();
        for entry in fs::read_dir(self.root.join(format!("{shelf:02x}")))? {
            keys.extend(entry?.file_name().to_str().and_then(BlobKey::parse));
        }
        Ok(keys)
    }

    /// Writes and removes a small file, to see that the store works.
    ///
    /// # Errors
    /// When it does not.
    pub fn probe(&self) -> io::Result<()> {
        let path = self.root.join("probe");
        fs::write(&path, b"ready")?;
        fs::remove_file(path)
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A blob that is being written.
#[derive(Debug)]
pub struct StagedBlob {
    file: File,
    shelf: PathBuf,
    key: BlobKey,
    len: u64,
    written_back: u64,
    synced: u64,
    /// The directory entry is durable.
    entered: bool,
}

impl StagedBlob {
    /// Where it will stay.
    #[must_use]
    pub const fn key(&self) -> &BlobKey {
        &self.key
    }

    /// Bytes written so far.
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

    /// Appends bytes.
    ///
    /// # Errors
    /// When the disk refuses; then the file counts as before.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.len)?;
        self.len += bytes.len() as u64;
        if self.len - self.written_back >= WRITE_BACK {
            self.start_write_back();
        }
        Ok(())
    }

    /// DONTNEED starts write-back of the range without waiting; pages under write-back stay in the cache, so the first
    /// reader still finds them. It is advice: a failure changes nothing but speed.
    fn start_write_back(&mut self) {
        let len = std::num::NonZeroU64::new(self.len - self.written_back);
        let _ = rustix::fs::fadvise(&self.file, self.written_back, len, Advice::DontNeed);
        self.written_back = self.len;
    }

    /// Makes everything written so far durable, the directory entry included.
    ///
    /// # Errors
    /// When the disk fails; then nothing may be acknowledged.
    pub fn sync(&mut self) -> io::Result<()> {
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

    /// Reads back bytes that were written.
    ///
    /// # Errors
    /// When they are not there.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Makes bytes durable beside a writer that goes on: a handle for another thread.
    ///
    /// # Errors
    /// When the system has no more handles.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// What the file looks like now, to be trusted later as long as it looks the same.
    ///
    /// # Errors
    /// When the file system does not answer.
    pub fn stamp(&self) -> io::Result<Stamp> {
        Stamp::of(&self.file)
    }
}
