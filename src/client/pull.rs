//! Fetching an artifact or a parameter group: verified while it arrives, resumed where it stopped, and visible only
//! when all of it is right.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::error::{Error, Kind};
use super::offload::blocking;
use super::progress::Progress;
use super::reference::Reference;
pub use super::resolve::RoundOf;
use super::resolve::{Aim, find};
use super::retry::{Trouble, patiently};
use super::server::Server;
use super::staging::Staging;
use crate::api::artifact::Artifact;
use crate::api::problem::Problem;
use crate::api::route;
use crate::core::checkpoint::{Header, SHARED_GROUPS};
use crate::core::digest::{ContentHash, GroupHash};
use crate::core::error::DomainError;
use crate::core::limits::Limits;

/// What a pull has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The hash that was asked for, directly or by a round: that of the bytes, or of the artifact they are part of.
    pub hash: ContentHash,
    /// The round that was asked for, where one was.
    pub round: Option<RoundOf>,
    /// The parameter group, where one was pulled.
    pub group: Option<PulledGroup>,
    /// Bytes of files that came over the wire.
    pub bytes_received: u64,
    /// True when it was there already.
    pub present: bool,
}

/// One parameter group in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledGroup {
    /// H2.
    pub hash: GroupHash,
    /// The file in the target directory.
    pub file: String,
}

/// Fetches what `reference` names into the directory `target`; with `group` only that parameter group, as
/// `<group>.safetensors`.
///
/// A group that is named by its own hash is called as the server calls it, if that is a group that exists, and
/// `params-<first digits of its hash>.safetensors` otherwise. `run` is for locators that do not name their run.
///
/// # Errors
/// A verdict when the bytes are wrong or nothing is stored under the hash; otherwise what stood in the way.
pub async fn pull(
    server: &Server,
    reference: &Reference,
    target: &Path,
    (group, run): (Option<&str>, Option<&str>),
    progress: &Arc<dyn Progress>,
) -> Result<Pulled, Error> {
    if group.is_some_and(|group| !SHARED_GROUPS.contains(&group)) {
        return Err(Error::usage("there is no such parameter group", "Name encoder or predictor."));
    }
    let target = &absolute(target)?;
    let found = find(server, reference, (group, run), progress).await?;
    let group = found.group.as_deref();
    let pull = |hash, round| Pull { server, hash, round, target, progress };
    let pulled = match found.aim {
        Aim::Group(hash) => pull(ContentHash::from_bytes(*hash.as_bytes()), None).fetch_group(group).await,
        Aim::Either(hash) => pull(hash, None).fetch(group).await,
        Aim::Checkpoint(hash, round) => pull(hash, Some(round)).fetch(group).await,
    };
    let pulled = pulled?;
    Ok(Pulled { hash: found.checkpoint.unwrap_or(pulled.hash), round: found.round, ..pulled })
}

/// What lies where the artifact should go.
enum Occupied {
    No,
    ByTheSame,
    ByOther(Error),
}

/// One pull: what is wanted, from where, and where it goes.
pub(super) struct Pull<'a> {
    pub(super) server: &'a Server,
    pub(super) hash: ContentHash,
    /// The round that the artifact has to be.
    pub(super) round: Option<u64>,
    pub(super) target: &'a Path,
    pub(super) progress: &'a Arc<dyn Progress>,
}

impl Pull<'_> {
    /// Fetches the artifact with this hash, or with `group` that part of it; where there is no such artifact, the
    /// parameter group with this hash.
    async fn fetch(&self, group: Option<&str>) -> Result<Pulled, Error> {
        let occupied = if group.is_none() { self.look_at_target().await? } else { Occupied::No };
        if matches!(occupied, Occupied::ByTheSame) {
            return Ok(Pulled { hash: self.hash, round: None, group: None, bytes_received: 0, present: true });
        }
        let url = self.server.url(&route::artifact(self.hash));
        match self.found(async || self.server.get::<Artifact>(url.clone()).await).await? {
            Some(artifact) if group.is_none() => match occupied {
                Occupied::ByOther(reason) => Err(self.refuse(&reason)),
                _ => self.fetch_artifact(&artifact).await,
            },
            Some(artifact) => self.fetch_group_of(&artifact, group.unwrap_or_default()).await,
            None => self.fetch_group(group).await,
        }
    }

    /// A checkpoint knows its round; a server that calls it another one is wrong.
    pub(super) fn check_round(&self, header: &Header) -> Result<(), Error> {
        match self.round {
            Some(round) if header.round_index != round => {
                Err(DomainError::integrity("the server gives the checkpoint of another round than was asked for")
                    .field("expected", round)
                    .field("got", header.round_index)
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Compares hashes, never names or sizes: only the same artifact may lie there already.
    async fn look_at_target(&self) -> Result<Occupied, Error> {
        match fs::read_dir(self.target).map(Iterator::count) {
            Ok(0) => return Ok(Occupied::No),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Occupied::No),
            _ => {}
        }
        let (target, hash, progress) = (self.target.to_owned(), self.hash.to_string(), Arc::clone(self.progress));
        let verified = blocking(move || {
            let directory = Directory::open(&target, Limits::DEFAULT)?;
            if directory.header().content_hash.to_string() != hash {
                return Err(Error::usage("it holds another artifact", ""));
            }
            directory.verify(Some(&hash), &*progress)
        });
        Ok(match verified.await {
            Ok(verified) => self.check_round(verified.header()).map(|()| Occupied::ByTheSame)?,
            Err(error) => Occupied::ByOther(error),
        })
    }

    /// The refusal of a target that holds something else.
    pub(super) fn refuse(&self, reason: &Error) -> Error {
        Error::usage(
            format!("{} exists and is not this artifact: {}", self.target.display(), reason.problem().message),
            "Name a directory that does not exist, or remove this one.",
        )
    }

    /// Asks for something that may not be there.
    pub(super) async fn found<T>(&self, ask: impl AsyncFnMut() -> Result<T, Trouble>) -> Result<Option<T>, Error> {
        match patiently(&**self.progress, ask).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.problem().status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The refusal that Lensemble's clients expect for a hash that nobody has.
    pub(super) fn missing(&self) -> Error {
        let error = DomainError::integrity(format!("{} is not in the registry", self.hash))
            .field("expected_hash", self.hash.to_string())
            .remedy("Check the hash; whoever has made the artifact has to push it to this registry first.");
        Error::answered(Kind::Refused, Problem::new(&error, 404))
    }

    /// A staging directory in `place`, which is made if there is none.
    pub(super) fn stage(&self, place: &Path, label: Option<&OsStr>) -> Result<Staging, Error> {
        fs::create_dir_all(place).map_err(|error| Error::io("cannot create", place, &error))?;
        Staging::claim(place, label.unwrap_or_else(|| OsStr::new("cairn")), &self.hash.to_string())
    }

    /// What a download failed with, told in terms of what was wanted. Wrong bytes are not kept; whatever else stood in
    /// the way, the next pull continues.
    pub(super) fn failed(&self, staging: Staging, error: Error) -> Error {
        if error.problem().status == 404 {
            return self.missing();
        }
        if error.kind() != Kind::Integrity {
            return error;
        }
        staging.remove();
        error.with("expected_hash", self.hash.to_string())
    }
}

/// The target with a last component, which the staging directory beside it is named after.
fn absolute(target: &Path) -> Result<PathBuf, Error> {
    let there =
        if fs::symlink_metadata(target).is_ok() { fs::canonicalize(target) } else { std::path::absolute(target) };
    let there = there.map_err(|error| Error::io("cannot use", target, &error))?;
    if there.file_name().is_some() {
        return Ok(there);
    }
    Err(Error::usage(
        format!("{} cannot become an artifact directory", target.display()),
        "Name a directory of its own.",
    ))
}
