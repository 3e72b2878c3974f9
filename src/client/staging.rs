//! Where a pull collects bytes: a hidden directory beside the target, tied to the hash, held by one process.
//!
//! It survives a killed pull and is found again by the next one; the target appears by one rename or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::error::Error;
use super::lock::claim;
use crate::core::error::{DomainError, ErrorCode};

/// Pulls of one thing to one place that may run at once.
const SLOTS: u32 = 64;
/// Digits of the hash in the directory's name.
const TIE: usize = 16;

/// A staging directory that this process holds.
pub(super) struct Staging {
    path: PathBuf,
    _held: File,
}

impl Staging {
    /// Takes the first staging directory for `label` and `hash` in `parent` that nobody else holds: with what an
    /// earlier pull has left in it, or new.
    pub(super) fn claim(parent: &Path, label: &OsStr, hash: &str) -> Result<Self, Error> {
        for slot in 1..=SLOTS {
            let mut name = OsString::from(".");
            name.push(label);
            name.push(format!(".cairn-{}", &hash[..TIE.min(hash.len())]));
            name.push(if slot == 1 { ".part".to_owned() } else { format!(".{slot}.part") });
            let path = parent.join(name);
            let held = claim(&path, open).map_err(|error| Error::io("cannot use", &path, &error))?;
            if let Some(held) = held {
                return Ok(Self { path, _held: held });
            }
        }
        Err(Error::usage("too many pulls of the same artifact to the same place", "Wait for one of them to end."))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes everything in it that `keep` does not name.
    pub(super) fn retain(&self, keep: impl Fn(&OsStr) -> bool) -> Result<(), Error> {
        let cannot = |error: io::Error| Error::io("cannot clear", &self.path, &error);
        for entry in fs::read_dir(&self.path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if !keep(&entry.file_name()) {
                let is_directory = entry.file_type().map_err(cannot)?.is_dir();
                let path = entry.path();
                if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) }.map_err(cannot)?;
            }
        }
        Ok(())
    }

    /// Removes it with everything in it.
    pub(super) fn remove(self) {
        // What cannot be removed is cleared by the next pull of the same.
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Makes it the target, durably. The error of kind `DirectoryNotEmpty` or `AlreadyExists` means that something
    /// else has become the target meanwhile.
    pub(super) fn publish(&self, target: &Path) -> io::Result<()> {
        sync(&self.path)?;
        fs::rename(&self.path, target)?;
        sync(parent(target))
    }
}

fn open(path: &Path) -> io::Result<File> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Makes the entries of a directory durable.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The directory that holds `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Fails when the disk under `directory` clearly has no room for `bytes` more.
pub(super) fn check_room(directory: &Path, bytes: u64) -> Result<(), Error> {
    // A file system that does not tell is asked by writing.
    let Ok(disk) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= bytes {
        return Ok(());
    }
    let message = format!("{} needs {bytes} bytes more, its disk has {free}", directory.display());
    let error = DomainError::new(ErrorCode::RegistryStorageFull, message)
        .field("needed", bytes)
        .field("free", free)
        .remedy("Free some space on this disk, or name a directory on another one.");
    Err(Error::new(super::error::Kind::Unavailable, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";

    #[test]
    fn one_holder_each_and_the_left_over_is_found_again() {
        let parent = tempfile::tempdir().unwrap();
        let label = OsStr::new("model");
        let first = Staging::claim(parent.path(), label, HASH).unwrap();
        assert_eq!(first.path().file_name().unwrap(), ".model.cairn-0663139c7ec0749f.part");
        fs::write(first.path().join("weights.safetensors"), b"half").unwrap();
        let second = Staging::claim(parent.path(), label, HASH).unwrap();
        assert_ne!(first.path(), second.path());
        second.remove();
        drop(first);
        let again = Staging::claim(parent.path(), label, HASH).unwrap();
        assert_eq!(fs::read(again.path().join("weights.safetensors")).unwrap(), b"half");
        again.retain(|_| false).unwrap();
        assert_eq!(fs::read_dir(again.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_target_appears_whole_and_nothing_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("model");
        let staging = Staging::claim(parent.path(), OsStr::new("model"), HASH).unwrap();
        fs::write(staging.path().join("a"), b"1").unwrap();
        staging.publish(&target).unwrap();
        assert_eq!(fs::read(target.join("a")).unwrap(), b"1");

        let staging = Staging::claim(parent.path(), OsStr::new("model"), HASH).unwrap();
        fs::write(staging.path().join("a"), b"2").unwrap();
        let error = staging.publish(&target).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(target.join("a")).unwrap(), b"1");
    }

    #[test]
    fn a_link_in_the_place_of_the_staging_directory_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = parent.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, parent.path().join(".model.cairn-0663139c7ec0749f.part")).unwrap();
        assert!(Staging::claim(parent.path(), OsStr::new("model"), HASH).is_err());
    }

    #[test]
    fn a_disk_that_is_too_small_is_told_early() {
        let here = tempfile::tempdir().unwrap();
        check_room(here.path(), 1).unwrap();
        assert!(check_room(here.path(), u64::MAX).unwrap_err().is(ErrorCode::RegistryStorageFull));
    }
}
