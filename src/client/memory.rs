//! What a push remembers between two runs of the program: where its upload session is.
//!
//! One small file for each server, content hash and header text, so that a push which was killed continues, and a
//! push of anything else never meets its session.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::directory::Directory;
use super::lock::claim;
use crate::core::digest::to_hex;
use crate::core::sha256::Sha256;

/// Where programs of this user keep their state: `$XDG_STATE_HOME/cairn`, else `~/.local/state/cairn`.
#[must_use]
pub fn default_place() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("cairn"))
}

#[derive(Serialize, Deserialize)]
struct Kept {
    server: String,
    content_hash: String,
    session: String,
}

/// The memory of one push, held exclusively.
pub(super) struct Memory {
    path: PathBuf,
    server: String,
    content_hash: String,
    lock: PathBuf,
    _held: File,
}

impl Memory {
    /// The memory for pushing `directory` to `server`; `None` while another process pushes the same.
    pub(super) fn claim(place: &Path, server: &Url, directory: &Directory) -> io::Result<Option<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let server = server.as_str().trim_end_matches('/').to_owned();
        let content_hash = directory.header().content_hash.to_string();
        let key = Sha256::digest(format!("{server}\n{content_hash}\n{}", directory.text_digest()).as_bytes());
        let name = format!("push-{}", &to_hex(&key)[..32]);
        let lock = place.join(format!("{name}.lock"));
        let held = claim(&lock, |path| private().create(true).append(true).open(path))?;
        Ok(held.map(|held| Self { path: place.join(format!("{name}.json")), server, content_hash, lock, _held: held }))
    }

    /// The session of an earlier run.
    pub(super) fn recall(&self) -> Option<Url> {
        let kept: Kept = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        let matches = kept.server == self.server && kept.content_hash == self.content_hash;
        if matches { Url::parse(&kept.session).ok() } else { None }
    }

    /// Remembers a session, whole or not at all.
    pub(super) fn keep(&self, session: &Url) -> io::Result<()> {
        let kept = Kept {
            server: self.server.clone(),
            content_hash: self.content_hash.clone(),
            session: session.as_str().to_owned(),
        };
        let unfinished = self.path.with_extension("new");
        let mut file = private().create(true).write(true).truncate(true).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)
    }

    /// Drops the session: it is over.
    pub(super) fn forget(&self) {
        // What cannot be removed names a session that is gone, which the next run notices.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The lock's file is of no use without a memory beside it; it is still held here, so nobody else is inside.
        if !self.path.exists() {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// Whoever knows a session's address may continue it, so it is nobody else's business.
fn private() -> fs::OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::limits::Limits;

    #[test]
    fn a_session_is_remembered_for_its_server_only_and_once_at_a_time() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lensemble/checkpoints/single-fp32");
        let directory = Directory::open(&golden, Limits::DEFAULT).unwrap();
        let place = tempfile::tempdir().unwrap();
        let place = place.path().join("state");
        let server = Url::parse("http://127.0.0.1:8417").unwrap();
        let session = Url::parse("http://127.0.0.1:8417/v1/uploads/7?state=x").unwrap();

        let memory = Memory::claim(&place, &server, &directory).unwrap().unwrap();
        assert_eq!(memory.recall(), None);
        memory.keep(&session).unwrap();
        assert!(Memory::claim(&place, &server, &directory).unwrap().is_none());
        drop(memory);

        let memory = Memory::claim(&place, &server, &directory).unwrap().unwrap();
        assert_eq!(memory.recall(), Some(session));
        let elsewhere = Url::parse("http://127.0.0.1:9000").unwrap();
        assert_eq!(Memory::claim(&place, &elsewhere, &directory).unwrap().unwrap().recall(), None);

        memory.forget();
        assert_eq!(memory.recall(), None);
        drop(memory);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }
}
