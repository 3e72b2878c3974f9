//! Blobs as files in one directory, made durable by hand.
//!
//! `object_store`'s local backend neither syncs by default nor reads fast, so this path is our own: positioned writes,
//! write-back that starts early, `fdatasync` of the file and `fsync` of its directory before anything refers to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::key::BlobKey;
use super::staged::StagedBlob;

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
        Ok(StagedBlob::begin(file, self.shelf(&key), key))
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
        Ok((StagedBlob::continued(file, shelf, key, len), stamp))
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

pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
