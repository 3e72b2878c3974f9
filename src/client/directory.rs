//! An artifact directory on the local disk: exactly `header.json`, the weight files it names and perhaps an index.
//!
//! Nothing else may lie there, and nothing in it may be a link or a directory: what is verified has to be what any
//! other reader of the directory sees.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;

use super::error::{Error, Kind};
use super::progress::{Phase, Progress};
use crate::core::checkpoint::Header;
use crate::core::digest::BlobDigest;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::Verified;
use crate::core::intake::scan::{PIECE, Scan};
use crate::core::limits::Limits;
use crate::core::sha256::Sha256;
use crate::core::shards;

/// The name of the header in an artifact directory.
pub const HEADER: &str = "header.json";

/// An artifact directory whose header and list of files are in order; its weights have not been looked at.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    header: Arc<Header>,
    text: Bytes,
    files: Vec<LocalFile>,
    limits: Limits,
}

/// A file of the directory as it stood when the directory was opened.
#[derive(Clone, Debug)]
pub(super) struct LocalFile {
    pub(super) name: String,
    pub(super) len: u64,
    stamp: Stamp,
}

/// What changes when somebody writes to a file or puts another one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Opens and verifies a directory in one go; `expected` is the content hash it must have, in any spelling.
///
/// # Errors
/// As [`Directory::open`] and [`Directory::verify`].
pub fn verify(path: &Path, expected: Option<&str>, progress: &dyn Progress) -> Result<Verified, Error> {
    Directory::open(path, Limits::DEFAULT)?.verify(expected, progress)
}

impl Directory {
    /// Reads the header and the list of files.
    ///
    /// # Errors
    /// `artifact_invalid` and the other codes of a header; `checkpoint_integrity` when a weight file is missing,
    /// something else lies in the directory, or an entry is not a regular file.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, Error> {
        let mut entries = list(path, limits.shards + 2)?;
        let header_entry = entries.iter().position(|entry| entry.name == HEADER).ok_or_else(|| {
            DomainError::invalid("there is no header.json in the directory").remedy(
                "Name the directory that Lensemble's save_checkpoint has written: header.json and its weight files.",
            )
        })?;
        let text = read_header(path, &entries.swap_remove(header_entry), &limits)?;
        let header = Header::parse(&text, &limits)?;
        let mut names = header.weight_files.clone();
        if entries.iter().any(|entry| entry.name == shards::INDEX) {
            names.push(shards::INDEX.to_owned());
        }
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let place = entries.iter().position(|entry| *entry.name == *name).ok_or_else(|| {
                DomainError::integrity("a weight file of the header is missing in the directory").field("file", &*name)
            })?;
            let entry = entries.swap_remove(place);
            check_regular(&entry.metadata, &name)?;
            files.push(LocalFile { len: entry.metadata.len(), stamp: Stamp::of(&entry.metadata), name });
        }
        if let Some(entry) = entries.iter().min_by(|a, b| a.name.cmp(&b.name)) {
            return Err(DomainError::integrity("the directory holds something that is not part of the artifact")
                .field("file", entry.name.to_string_lossy())
                .remedy("Move it elsewhere: nothing would protect it against changes, so it must not lie here.")
                .into());
        }
        Ok(Self { path: path.to_owned(), header: Arc::new(header), text: text.into(), files, limits })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// The bytes of `header.json`.
    #[must_use]
    pub const fn text(&self) -> &Bytes {
        &self.text
    }

    /// SHA-256 of the bytes of `header.json`.
    #[must_use]
    pub fn text_digest(&self) -> BlobDigest {
        BlobDigest::from_bytes(Sha256::digest(&self.text))
    }

    /// The weight files in order, then the index if there is one.
    pub(super) fn files(&self) -> &[LocalFile] {
        &self.files
    }

    /// Bytes of all files but the header.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Recomputes every hash from the bytes on disk, in one pass where the files are in canonical order.
    ///
    /// # Errors
    /// `checkpoint_integrity` or `artifact_invalid` when the bytes are not what the header says, are not `expected`,
    /// or change while they are read.
    pub fn verify(&self, expected: Option<&str>, progress: &dyn Progress) -> Result<Verified, Error> {
        progress.begin(Phase::Verify, self.size(), 0);
        let mut scan = self.scan();
        let mut reader = self.reader();
        let mut done = 0;
        let mut buffer = vec![0; PIECE];
        for file in 0..self.files.len() {
            while let Some(chunk) = reader.next(file, scan.seen(file), &mut buffer)? {
                scan.take(file, chunk)?;
                done += chunk.len() as u64;
                progress.at(done);
            }
        }
        self.settle(&mut scan, &mut reader, expected)
    }

    /// The digests of this directory before their first byte.
    pub(super) fn scan(&self) -> Scan {
        Scan::new(Arc::clone(&self.header), self.files.iter().map(|file| Some(file.len)).collect(), self.limits)
    }

    /// A reader of the files.
    pub(super) fn reader(&self) -> Reader {
        Reader { directory: self.clone(), open: None }
    }

    /// After every file was seen once: reads again what came out of order, and judges.
    pub(super) fn settle(
        &self,
        scan: &mut Scan,
        reader: &mut Reader,
        expected: Option<&str>,
    ) -> Result<Verified, Error> {
        let mut buffer = vec![0; PIECE];
        while let Some(extent) = scan.pending() {
            let Some(chunk) = reader.next(extent.file, extent.start, &mut buffer)? else {
                return Err(self.changed(extent.file));
            };
            let len = chunk.len().min(usize::try_from(extent.len).unwrap_or(PIECE));
            scan.take_again(extent, &chunk[..len]);
        }
        // A file may have been read twice; only if it stood still were both the same bytes.
        for (index, file) in self.files.iter().enumerate() {
            let metadata = fs::symlink_metadata(self.path.join(&file.name)).map_err(|_| self.changed(index))?;
            if Stamp::of(&metadata) != file.stamp || metadata.len() != file.len {
                return Err(self.changed(index));
            }
        }
        Ok(scan.finish(expected)?)
    }

    fn changed(&self, file: usize) -> Error {
        DomainError::integrity("a file changed while it was read")
            .field("file", &*self.files[file].name)
            .remedy("Wait until its writer is done, then try again.")
            .into()
    }
}

/// Reads pieces of the files of a directory, one open file at a time.
pub(super) struct Reader {
    directory: Directory,
    open: Option<(usize, File)>,
}

impl Reader {
    /// The bytes of a file from `offset` on, as many as `buffer` takes; `None` at the end that the file had when the
    /// directory was opened.
    pub(super) fn next<'a>(
        &mut self,
        index: usize,
        offset: u64,
        buffer: &'a mut [u8],
    ) -> Result<Option<&'a [u8]>, Error> {
        let Self { directory, open } = self;
        let path = directory.path.join(&directory.files[index].name);
        let expected = &directory.files[index];
        let file = match open {
            Some((number, file)) if *number == index => file,
            _ => {
                let (file, metadata) = open_regular(&path).map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => Error::io("cannot read", &path, &error),
                    _ => directory.changed(index),
                })?;
                if Stamp::of(&metadata) != expected.stamp {
                    return Err(directory.changed(index));
                }
                &mut open.insert((index, file)).1
            }
        };
        let left = expected.len.saturating_sub(offset);
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let mut filled = 0;
        // At the known end one byte more is tried, so that a file that has grown is noticed.
        let target = if wanted == 0 { 1 } else { wanted };
        while filled < target {
            match file.read_at(&mut buffer[filled..target], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("cannot read", &path, &error)),
            }
        }
        match filled {
            0 if wanted == 0 => Ok(None),
            _ if filled == wanted => Ok(Some(&buffer[..filled])),
            _ => Err(directory.changed(index)),
        }
    }
}

struct Entry {
    name: std::ffi::OsString,
    metadata: Metadata,
}

/// The entries of a directory, at most a few more than an artifact can have.
fn list(path: &Path, most: usize) -> Result<Vec<Entry>, Error> {
    let cannot = |error: io::Error| match error.kind() {
        // Lensemble's own reader says this of a directory that does not exist; but nothing was checked.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::new(
            Kind::Usage,
            &DomainError::new(ErrorCode::ArtifactInvalid, format!("{} is not a directory", path.display()))
                .remedy("Name a directory with header.json and its weight files."),
        ),
        _ => Error::io("cannot list", path, &error),
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        // Does not follow links. An entry that vanished meanwhile was not part of a directory that stands still.
        let metadata = entry.metadata().map_err(|error| Error::io("cannot inspect", &entry.path(), &error))?;
        entries.push(Entry { name: entry.file_name(), metadata });
        if entries.len() > most + 1 {
            return Err(DomainError::integrity("the directory holds more files than an artifact can have").into());
        }
    }
    Ok(entries)
}

fn check_regular(metadata: &Metadata, name: &str) -> Result<(), Error> {
    let what = match metadata.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        _ => "something else than a regular file",
    };
    Err(DomainError::integrity(format!("{name} is {what}"))
        .field("file", name)
        .remedy("Put the regular file itself there.")
        .into())
}

/// Opens a file without following a link and without waiting for the other end of a pipe.
fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn read_header(path: &Path, entry: &Entry, limits: &Limits) -> Result<Vec<u8>, Error> {
    check_regular(&entry.metadata, HEADER)?;
    let path = path.join(HEADER);
    let mut text = Vec::new();
    // One byte more than the limit is enough for the parser to refuse it.
    open_regular(&path)
        .and_then(|(file, _)| file.take(limits.header_bytes + 1).read_to_end(&mut text))
        .map_err(|error| Error::io("cannot read", &path, &error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::progress::Silent;

    fn checkpoint() -> (tempfile::TempDir, Directory) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lensemble/checkpoints/single-fp32");
        let copy = tempfile::tempdir().unwrap();
        for name in [HEADER, shards::SINGLE] {
            fs::copy(golden.join(name), copy.path().join(name)).unwrap();
        }
        let directory = Directory::open(copy.path(), Limits::DEFAULT).unwrap();
        (copy, directory)
    }

    /// A change after the directory was opened is an error even where the bytes are right again.
    fn is_noticed(change: impl Fn(&Path, &[u8])) {
        let (copy, directory) = checkpoint();
        directory.verify(None, &Silent).unwrap();
        let path = copy.path().join(shards::SINGLE);
        change(&path, &fs::read(&path).unwrap());
        let error = directory.verify(None, &Silent).unwrap_err();
        assert!(error.is(ErrorCode::CheckpointIntegrity) && error.problem().message.contains("changed"), "{error}");
    }

    #[test]
    fn files_that_change_meanwhile_are_noticed() {
        is_noticed(|path, bytes| fs::write(path, &bytes[..bytes.len() - 1]).unwrap());
        is_noticed(|path, bytes| fs::write(path, [bytes, b"more"].concat()).unwrap());
        is_noticed(|path, bytes| {
            fs::write(path.with_extension("new"), bytes).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        });
        is_noticed(|path, _| fs::remove_file(path).unwrap());
        is_noticed(|path, _| {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        });
    }

    #[test]
    fn a_file_that_grows_while_it_is_open_is_noticed_at_its_end() {
        let (copy, directory) = checkpoint();
        let mut reader = directory.reader();
        let mut buffer = vec![0; PIECE];
        let len = reader.next(0, 0, &mut buffer).unwrap().unwrap().len() as u64;
        let mut file = File::options().append(true).open(copy.path().join(shards::SINGLE)).unwrap();
        io::Write::write_all(&mut file, b"x").unwrap();
        assert!(reader.next(0, len, &mut buffer).is_err());
    }
}
