//! Upload sessions: open, look, append, give up.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::{OnceCell, mpsc};

use super::error::ServiceError;
use super::receive::{BodyEnd, QUEUE, Receiver, pump};
use super::registry::{Registry, now_micros, random_key, rfc3339};
use super::session::{Session, lock};
use crate::api::problem::Problem;
use crate::api::route;
use crate::api::upload::{Upload, UploadFile, UploadState};
use crate::core::checkpoint::Header;
use crate::core::digest::BlobDigest;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::FileIntake;
use crate::core::shards;
use crate::store::blob::BlobKey;
use crate::store::meta::artifact::Link;
use crate::store::meta::upload::UploadRow;

/// Where the next bytes of a file go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Durable bytes.
    pub offset: u64,
    /// Bytes of the whole file, when known.
    pub length: Option<u64>,
}

/// One `PATCH`.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The session.
    pub id: &'a str,
    /// The file's name in the artifact.
    pub file: &'a str,
    /// Where the body's first byte belongs.
    pub offset: u64,
    /// Length of the whole file, if the client tells.
    pub length: Option<u64>,
}

impl Registry {
    /// Opens a session for the artifact that `header_text` describes.
    ///
    /// # Errors
    /// When the header is refused, or contradicts the header of a stored artifact with the same hash.
    pub async fn open_upload(&self, header_text: Bytes) -> Result<Upload, ServiceError> {
        let limits = self.options.limits;
        let text = header_text.clone();
        let header = tokio::task::spawn_blocking(move || Header::parse(&text, &limits)).await?;
        let header = match header {
            Ok(header) => header,
            Err(error) => {
                self.witness(&error, None).await;
                return Err(error.into());
            }
        };
        self.check_same_header(&header, BlobDigest::of(&header_text)).await?;
        let id = random_key()?.to_string();
        let now = now_micros();
        let files = header.weight_files.len();
        let place = Link {
            content_hash: header.content_hash,
            round_index: header.round_index,
            parent_hash: header.parent_hash,
        };
        // A large one takes megabytes, and is not needed any more.
        drop(header);
        self.meta.create_upload(&id, &place, &header_text, files, (now, now + self.lifetime_micros())).await?;
        self.heads.changed();
        self.upload(&id).await
    }

    fn lifetime_micros(&self) -> i64 {
        i64::try_from(self.options.session_lifetime.as_micros()).unwrap_or(i64::MAX / 2)
    }

    async fn upload_row(&self, id: &str) -> Result<UploadRow, ServiceError> {
        let row = match BlobKey::parse(id) {
            Some(_) => self.meta.upload(id).await?,
            None => None,
        };
        row.filter(|row| row.expires_at > now_micros()).ok_or_else(|| ServiceError::not_found("the upload session"))
    }

    /// Where a session stands.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn upload(&self, id: &str) -> Result<Upload, ServiceError> {
        let row = self.upload_row(id).await?;
        let live = lock(&self.sessions).get(id).and_then(std::sync::Weak::upgrade);
        let verifying_bytes = live.as_ref().and_then(|cell| *cell.get()?.read_back.borrow());
        let files = row
            .files
            .iter()
            .map(|file| {
                let name = shards::file_name(file.position, row.weight_files);
                UploadFile {
                    url: format!("{}/files/{name}", route::upload(id)),
                    name,
                    offset: file.stored,
                    length: file.length,
                }
            })
            .collect();
        Ok(Upload {
            id: id.to_owned(),
            content_hash: row.content_hash.to_string(),
            state: state_of(&row),
            files,
            created_at: rfc3339(row.created_at),
            expires_at: rfc3339(row.expires_at),
            verifying_bytes,
            problem: row.problem.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        })
    }

    /// How far one file of a session has come.
    ///
    /// # Errors
    /// When there is no such session or file.
    pub async fn upload_file(&self, id: &str, name: &str) -> Result<FileState, ServiceError> {
        let row = self.upload_row(id).await?;
        let position = (0..=row.weight_files)
            .find(|position| shards::file_name(*position, row.weight_files) == name)
            .ok_or_else(|| ServiceError::not_found("a file of this name"))?;
        let file = row.files.iter().find(|file| file.position == position);
        Ok(FileState { offset: file.map_or(0, |file| file.stored), length: file.and_then(|file| file.length) })
    }

    /// The session in memory, loaded if it is not there.
    pub(super) async fn session(&self, id: &str) -> Result<Arc<OnceCell<Session>>, ServiceError> {
        check_open(&self.upload_row(id).await?)?;
        let cell = {
            let mut sessions = lock(&self.sessions);
            if let Some(cell) = sessions.get(id).and_then(std::sync::Weak::upgrade) {
                cell
            } else {
                sessions.retain(|_, cell| cell.strong_count() > 0);
                let cell = Arc::new(OnceCell::new());
                sessions.insert(id.to_owned(), Arc::downgrade(&cell));
                cell
            }
        };
        cell.get_or_try_init(|| async {
            let row = self.upload_row(id).await?;
            check_open(&row)?;
            let saved = self.meta.upload_header(id).await?;
            let saved = saved.ok_or_else(|| ServiceError::not_found("the upload session"))?;
            let (id, blobs, limits) = (id.to_owned(), self.blobs.clone(), self.options.limits);
            let span = tracing::Span::current();
            let load = move || span.in_scope(|| Session::load(&id, &row, saved, &blobs, &limits));
            tokio::task::spawn_blocking(load).await?
        })
        .await?;
        Ok(cell)
    }

    /// Makes the next request load the session anew.
    pub(super) fn forget_session(&self, session: &Session) {
        if let Some(id) = &session.id {
            lock(&self.sessions).remove(id);
        }
    }

    /// Appends a body to a file of a session; the durable length afterwards.
    ///
    /// # Errors
    /// When the offset is not the stored length, the bytes are refused, or the body is cut short; what was stored
    /// before and what arrived until then stays, except after a refusal of the bytes.
    pub async fn append<S, E>(self: &Arc<Self>, append: Append<'_>, body: S) -> Result<u64, ServiceError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: std::fmt::Display,
    {
        let cell = self.session(append.id).await?;
        let session = cell.get().ok_or_else(|| ServiceError::not_found("the upload session"))?;
        let Some(position) = session.position(append.file) else {
            return Err(DomainError::integrity("the header does not list a file of this name")
                .field("file", append.file)
                .remedy("Send only the files in weight_files, and weights.index.json if there is one.")
                .into());
        };
        let claims = &session.claims[position];
        claims.send_modify(|claim| *claim += 1);
        let evicted = claims.subscribe();
        let mine = *evicted.borrow();
        let mut slot = Arc::clone(&session.slots[position]).lock_owned().await;
        if *claims.borrow() != mine {
            return Err(taken_over());
        }
        slot.writer = self.meta.claim_upload_file(append.id, position).await?;
        let stored = slot.intake.seen();
        if append.offset != stored {
            let error = DomainError::new(
                ErrorCode::RegistryUploadOffset,
                format!("{stored} bytes of the file are stored; the body begins at {}", append.offset),
            );
            return Err(ServiceError::Conflict(
                error.field("upload_offset", stored).field("got_offset", append.offset),
            ));
        }
        if let Some(length) = append.length {
            let known = slot.intake.expected_len().or(slot.declared);
            if known.is_some_and(|known| known != length) {
                return Err(DomainError::integrity("the Upload-Length is not the length of the file")
                    .field("expected", known)
                    .field("got", length)
                    .into());
            }
            if stored == 0 {
                slot.intake = FileIntake::new(&session.header, position, Some(length), &self.options.limits);
            }
            slot.declared = Some(length);
        }
        let (sender, queue) = mpsc::channel(QUEUE);
        let receiver = Receiver { registry: Arc::clone(self), session: Arc::clone(&cell), slot, position };
        let worker = receiver.start(queue);
        let end = pump(body, sender, Some(evicted), self.options.body_idle).await;
        let stored = match worker.await? {
            Ok(stored) => stored,
            Err(error) => {
                if let Some(domain) = error.domain() {
                    self.witness(domain, Some(session.header.content_hash)).await;
                }
                return Err(error);
            }
        };
        match end {
            BodyEnd::Complete | BodyEnd::Refused => Ok(stored),
            BodyEnd::Cut(why) => Err(ServiceError::Cut(why)),
            BodyEnd::Evicted => Err(taken_over()),
        }
    }

    /// Gives a session up; its bytes are dropped. Repeating it is harmless.
    ///
    /// # Errors
    /// When there is no such session, or it has become an artifact.
    pub async fn abort_upload(&self, id: &str) -> Result<(), ServiceError> {
        let row = self.upload_row(id).await?;
        if row.state == "finished" {
            return Err(ServiceError::Conflict(DomainError::new(
                ErrorCode::RegistryUploadState,
                "the session has become an artifact, which cannot be taken back",
            )));
        }
        let live = lock(&self.sessions).remove(id).and_then(|cell| cell.upgrade());
        let keys = self.meta.close_upload(id, "aborted", None).await?;
        self.heads.changed();
        let mut keys: Vec<BlobKey> = keys.iter().filter_map(|key| BlobKey::parse(key)).collect();
        // Writers that are still at work stop, and what they have not saved yet goes too.
        if let Some(session) = live.as_ref().and_then(|cell| cell.get()) {
            for (slot, claims) in session.slots.iter().zip(&session.claims) {
                claims.send_modify(|claim| *claim += 1);
                let mut slot = slot.lock().await;
                keys.extend(slot.staged.take().map(|staged| staged.key().clone()));
            }
        }
        self.discard(keys).await;
        Ok(())
    }
}

fn taken_over() -> ServiceError {
    ServiceError::Conflict(DomainError::new(ErrorCode::RegistryUploadState, "a newer writer has taken over this file"))
}

fn state_of(row: &UploadRow) -> UploadState {
    match row.state.as_str() {
        "finished" => UploadState::Finished,
        "refused" => UploadState::Refused,
        "aborted" => UploadState::Aborted,
        _ => UploadState::Open,
    }
}

/// Refuses a session that is over; a refused one gives its reason again.
pub(super) fn check_open(row: &UploadRow) -> Result<(), ServiceError> {
    let over = |message: &str| {
        let error =
            DomainError::new(ErrorCode::RegistryUploadState, message.to_owned()).field("state", row.state.clone());
        Err(ServiceError::Conflict(error))
    };
    match state_of(row) {
        UploadState::Open => Ok(()),
        UploadState::Finished => over("the session has become an artifact"),
        UploadState::Aborted => over("the session was given up"),
        UploadState::Refused => {
            let problem: Option<Problem> = row.problem.as_deref().and_then(|text| serde_json::from_str(text).ok());
            problem.map_or_else(|| over("the session was refused"), |problem| Err(problem.to_error().into()))
        }
    }
}
