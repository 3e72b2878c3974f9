//! Exclusive claims on files and directories that may be renamed or removed by whoever holds them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Times that the path may turn into something else between opening and locking it.
const ATTEMPTS: u32 = 16;

/// Locks what `open` opens at `path` until the returned file is dropped; `None` when somebody else holds it.
///
/// On file systems without working locks two processes may both hold it; callers write identical bytes to identical
/// places, so that this costs work but no correctness.
pub(super) fn claim(path: &Path, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<Option<File>> {
    for _ in 0..ATTEMPTS {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous holder may have renamed or removed it after it was opened here.
        let locked = file.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(now) if (now.dev(), now.ino()) == (locked.dev(), locked.ino()) => return Ok(Some(file)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> io::Result<File> {
        File::options().create(true).append(true).open(path)
    }

    #[test]
    fn a_claim_is_exclusive_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = claim(&path, open).unwrap();
        assert!(first.is_some());
        assert!(claim(&path, open).unwrap().is_none());
        drop(first);
        assert!(claim(&path, open).unwrap().is_some());
    }

    #[test]
    fn what_was_renamed_away_meanwhile_is_not_claimed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let claimed = claim(&path, |path| {
            let file = open(path)?;
            fs::rename(path, path.with_extension("gone"))?;
            Ok(file)
        });
        assert!(claimed.unwrap().is_none());
    }
}
