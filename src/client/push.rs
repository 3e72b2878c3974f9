//! Sending an artifact directory: resumes by itself, within one run and after the program was killed.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::directory::Directory;
use super::error::{Error, Kind};
use super::feed::{self, Feed};
use super::memory::Memory;
pub use super::memory::default_place;
use super::offload::blocking;
use super::progress::{Phase, Progress};
use super::retry::{Patience, Trouble, patiently};
use super::server::Server;
use super::session::{Session, Setback, Stored, offset};
use crate::api::artifact::Artifact;
use crate::api::route;
use crate::api::upload::{Upload, UploadState};
use crate::core::checkpoint::ModelArch;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::{Verified, hash_mismatch};

/// What a push has done.
#[derive(Debug)]
pub struct Pushed {
    /// The directory as it was verified here while it was read.
    pub verified: Verified,
    /// True when this push made the artifact visible; false when the server had it.
    pub created: bool,
    /// Bytes of files that this push has sent and the server has stored.
    pub bytes_sent: u64,
    /// What the server found worth knowing.
    pub warnings: Vec<String>,
}

/// Sends a directory. Sessions are remembered under `memory`, so that the next run continues a broken one.
///
/// # Errors
/// A verdict when the directory is wrong or the server refuses it; otherwise what stood in the way.
pub async fn push(
    server: &Server,
    directory: Directory,
    memory: Option<&Path>,
    progress: &Arc<dyn Progress>,
) -> Result<Pushed, Error> {
    let directory = Arc::new(directory);
    let own = Arc::clone(&directory);
    let feed = blocking(move || Feed::open((*own).clone())).await?;
    let stored = stored(server, &directory, progress).await?;
    if stored.as_ref().is_some_and(|artifact| agrees(artifact, &directory)) {
        // Not a byte needs to go out, but a damaged directory must not be reported as stored.
        let (own, progress) = (Arc::clone(&directory), Arc::clone(progress));
        let verified = blocking(move || own.verify(None, &*progress)).await?;
        if let Some(artifact) = &stored {
            check_answer(&verified, artifact)?;
        }
        return Ok(Pushed { verified, created: false, bytes_sent: 0, warnings: Vec::new() });
    }
    let memory = memory.and_then(|place| match Memory::claim(place, server.base(), &directory) {
        Ok(Some(memory)) => Some(memory),
        Ok(None) => {
            progress.note("another push of the same directory is running; this one uses a session of its own");
            None
        }
        Err(error) => {
            progress.note(&format!("cannot use {}: {error}; a killed push would start again", place.display()));
            None
        }
    });
    let push = Push { server, directory, progress, memory, feed: Arc::new(Mutex::new(feed)), fresh: stored.is_none() };
    push.run().await
}

/// The artifact as the server has it, if it has it in good health.
async fn stored(
    server: &Server,
    directory: &Directory,
    progress: &Arc<dyn Progress>,
) -> Result<Option<Artifact>, Error> {
    let url = server.url(&route::artifact(directory.header().content_hash));
    match patiently(&**progress, async || server.get(url.clone()).await).await {
        Ok(artifact) => Ok(Some(artifact)),
        Err(error) if error.problem().status == 404 => Ok(None),
        Err(error) if error.is(ErrorCode::CheckpointIntegrity) => {
            progress.note("the stored copy is damaged; sending it again");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// True when sending would change nothing: the server keeps its first copy of equal content, unless the headers
/// disagree about what the content hash does not cover, which it has to refuse.
fn agrees(artifact: &Artifact, directory: &Directory) -> bool {
    let header = directory.header();
    if artifact.header.sha256 == directory.text_digest().to_string() {
        return true;
    }
    let arch = artifact.header.model_arch.clone().map(serde_json::from_value::<ModelArch>);
    artifact.header.config_hash == header.config_hash.to_string()
        && arch.transpose().is_ok_and(|arch| arch == header.model_arch)
}

/// The server must have understood the same artifact.
fn check_answer(verified: &Verified, artifact: &Artifact) -> Result<(), Error> {
    let own = verified.content_hash().to_string();
    if artifact.content_hash != own {
        return Err(hash_mismatch(&own, &artifact.content_hash).into());
    }
    for group in verified.groups() {
        let own = group.digest.to_string();
        let theirs = artifact.groups.iter().find(|theirs| theirs.name == group.name);
        let theirs = theirs.map_or("none", |theirs| theirs.group_hash.as_str());
        if theirs != own {
            return Err(DomainError::integrity("the server has another hash for a parameter group")
                .field("group", group.name)
                .field("expected_hash", own)
                .field("got_hash", theirs)
                .into());
        }
    }
    Ok(())
}

struct Push<'a> {
    server: &'a Server,
    directory: Arc<Directory>,
    progress: &'a Arc<dyn Progress>,
    memory: Option<Memory>,
    feed: Arc<Mutex<Feed>>,
    /// The server did not have the artifact when the push began.
    fresh: bool,
}

impl Push<'_> {
    /// Continues the remembered session, else opens one; a session that turns out to be gone is replaced once.
    async fn run(self) -> Result<Pushed, Error> {
        let mut bytes_sent = 0;
        let remembered = self.memory.as_ref().and_then(Memory::recall);
        let mut replaced = false;
        if let Some(url) = remembered {
            let session = Session::known(self.server, self.progress, url);
            let sent = match session.standing().await {
                Ok(upload) if self.fits(&upload) => {
                    self.progress.note("continuing an earlier push");
                    self.send(&session, upload, &mut bytes_sent).await
                }
                Ok(_) => {
                    session.abort().await;
                    Err(Setback::Gone(Error::unavailable("the files have other lengths now", "Push again.")))
                }
                Err(setback) => Err(setback),
            };
            match sent {
                Ok((verified, artifact, created)) => return self.done(verified, &artifact, created, bytes_sent),
                Err(Setback::Gone(_)) => {}
                // What an earlier run has sent may have been something else than what lies there now.
                Err(Setback::Failed(error)) if error.kind() == Kind::Refused && ends_session(&error) => {
                    session.abort().await;
                }
                Err(Setback::Failed(error)) => return Err(self.give_up(&session, error).await),
            }
            self.progress.note("the earlier upload cannot be continued; starting again");
            replaced = true;
        }
        loop {
            let (session, upload) = Session::open(self.server, self.progress, self.directory.text()).await?;
            if let Some(memory) = &self.memory
                && let Err(error) = memory.keep(session.url())
            {
                self.progress.note(&format!("cannot remember the session: {error}; a killed push would start again"));
            }
            match self.send(&session, upload, &mut bytes_sent).await {
                Ok((verified, artifact, created)) => return self.done(verified, &artifact, created, bytes_sent),
                Err(Setback::Gone(error)) if !replaced => {
                    self.progress.note(&format!("{}; opening a new session", error.problem().message));
                    replaced = true;
                }
                Err(Setback::Gone(error) | Setback::Failed(error)) => return Err(self.give_up(&session, error).await),
            }
        }
    }

    /// A verdict about the bytes ends the session; anything else, a refused token too, leaves it for the next run.
    async fn give_up(&self, session: &Session<'_>, error: Error) -> Error {
        if error.kind() == Kind::Integrity || ends_session(&error) {
            session.abort().await;
            if let Some(memory) = &self.memory {
                memory.forget();
            }
        }
        error
    }

    fn done(&self, verified: Verified, artifact: &Artifact, created: bool, bytes_sent: u64) -> Result<Pushed, Error> {
        if let Some(memory) = &self.memory {
            memory.forget();
        }
        check_answer(&verified, artifact)?;
        Ok(Pushed { verified, created, bytes_sent, warnings: artifact.warnings.clone() })
    }

    /// True unless the session knows of files that these here cannot be.
    fn fits(&self, upload: &Upload) -> bool {
        upload.content_hash == self.directory.header().content_hash.to_string()
            && upload.files.iter().all(|theirs| {
                let own = self.directory.files().iter().find(|own| own.name == theirs.name);
                own.is_some_and(|own| theirs.offset <= own.len && theirs.length.is_none_or(|told| told == own.len))
            })
    }

    /// Sends what the session does not have, verifies the directory and lets the server verify it.
    async fn send(
        &self,
        session: &Session<'_>,
        upload: Upload,
        bytes_sent: &mut u64,
    ) -> Result<(Verified, Artifact, bool), Setback> {
        let files = self.directory.files();
        let offsets: Vec<u64> = files.iter().map(|file| offset(&upload, &file.name)).collect();
        let mut behind: u64 = offsets.iter().sum();
        if behind > 0 {
            // What an earlier run has sent is hashed here before anything is added to it.
            self.progress.begin(Phase::Verify, behind, 0);
            let (feed, progress, offsets) = (Arc::clone(&self.feed), Arc::clone(self.progress), offsets.clone());
            blocking(move || feed::lock(&feed).catch_up_all(&offsets, &*progress)).await?;
        }
        let mut finished = upload.state == UploadState::Finished;
        self.progress.begin(Phase::Send, self.directory.size(), behind);
        for (file, start) in offsets.into_iter().enumerate() {
            if finished {
                break;
            }
            behind -= start;
            finished = !self.send_file(session, file, start, behind, bytes_sent).await?;
            behind += files[file].len;
        }
        let feed = Arc::clone(&self.feed);
        let verified = blocking(move || feed::lock(&feed).settle()).await?;
        self.progress.begin(Phase::Finish, self.directory.size(), 0);
        let (artifact, created) = session.finish(self.fresh).await?;
        Ok((verified, artifact, created))
    }

    /// Sends one file to its end; false when the session turns out to be finished.
    async fn send_file(
        &self,
        session: &Session<'_>,
        file: usize,
        mut offset: u64,
        behind: u64,
        bytes_sent: &mut u64,
    ) -> Result<bool, Setback> {
        let local = &self.directory.files()[file];
        let mut patience = Patience::default();
        // How far this run has sent the file; beyond it the server has bytes of an earlier one.
        let mut reached = offset;
        while offset < local.len {
            self.progress.at(behind + offset);
            let target = (file, &*local.name, local.len);
            let shown = |at| self.progress.at(behind + at);
            let now = match session.append(&self.feed, target, offset, shown, &mut reached).await {
                Ok(now) => now,
                Err(trouble) => match self.after(session, (&local.name, local.len), trouble, &mut patience).await? {
                    Stored::Upto(now) => now,
                    Stored::Finished => return Ok(false),
                },
            };
            if now > local.len {
                return Err(Setback::Gone(Error::unavailable(
                    "the server has more bytes than the file",
                    "Push again.",
                )));
            }
            if now > offset {
                *bytes_sent += now.min(reached).saturating_sub(offset);
                patience.progressed();
            } else {
                // No progress, whatever the server says: this must not go on for ever.
                patience.wait(Trouble::Passing { error: stuck(), after: None }, &**self.progress).await?;
            }
            offset = now;
        }
        Ok(true)
    }

    /// Waits after a broken transfer and asks where it continues.
    async fn after(
        &self,
        session: &Session<'_>,
        (name, len): (&str, u64),
        trouble: Trouble,
        patience: &mut Patience,
    ) -> Result<Stored, Setback> {
        if let Trouble::Final(error) = &trouble
            && error.is(ErrorCode::RegistryUploadState)
        {
            // Somebody else has ended the session; it says itself how.
            session.standing().await?;
            return session.continues(name, len).await;
        }
        patience.wait(trouble, &**self.progress).await?;
        session.continues(name, len).await
    }
}

fn stuck() -> Error {
    Error::unavailable("the server stores nothing of what is sent", "Try again later, or tell the server's operator.")
}

/// True for refusals after which the session cannot become an artifact, whoever asks.
fn ends_session(error: &Error) -> bool {
    matches!(error.problem().status, 404 | 409 | 410 | 415 | 422)
}
