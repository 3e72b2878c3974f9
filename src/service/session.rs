//! An upload in progress, in memory: its header, the digests that span files, and one slot for each file.
//!
//! A session is loaded from its rows when a request needs it and forgotten when no request does, so what a restart
//! finds is what every request finds.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::error::ServiceError;
use crate::core::checkpoint::Header;
use crate::core::digest::BlobDigest;
use crate::core::error::DomainError;
use crate::core::intake::{FileIntake, Intake};
use crate::core::limits::Limits;
use crate::core::recipe::Extent;
use crate::core::sha256::Sha256;
use crate::core::shards;
use crate::core::walk::WalkState;
use crate::store::blob::{BlobKey, LocalBlobs, StagedBlob, Stamp};
use crate::store::meta::upload::UploadRow;

/// Bytes that are read back at a time.
pub(super) const READ_BACK: usize = 1 << 20;

/// An upload in progress.
pub struct Session {
    /// Its name; none for an upload in one request, which nobody can continue.
    pub(super) id: Option<String>,
    pub(super) header: Arc<Header>,
    pub(super) header_digest: BlobDigest,
    pub(super) intake: Mutex<Intake>,
    /// Where the digests that span files continue: lets a file's worker see without waiting for another's whether its
    /// bytes are wanted.
    pub(super) fronts: Mutex<Vec<Extent>>,
    /// The weight files in order, then the index.
    pub(super) slots: Vec<Arc<tokio::sync::Mutex<Slot>>>,
    /// Counts the claims on each slot; a writer that is not the newest stops.
    pub(super) claims: Vec<watch::Sender<u64>>,
    /// Bytes read back so far by a finish that is under way.
    pub(super) read_back: watch::Sender<Option<u64>>,
}

/// One file of an upload.
pub struct Slot {
    pub(super) intake: FileIntake,
    pub(super) staged: Option<StagedBlob>,
    /// The number of this writer in the database.
    pub(super) writer: i64,
    /// Length that the client has told.
    pub(super) declared: Option<u64>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A lock whose holder panicked is still good to read: every change under these locks is a single assignment, and the
/// worker's own failure is reported by its join.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// An upload of which only the header is known.
    pub(super) fn new(id: Option<String>, header: Arc<Header>, header_digest: BlobDigest, limits: &Limits) -> Self {
        let intake = Intake::new(Arc::clone(&header));
        let files = header.weight_files.len() + 1;
        let slot = |index| Slot {
            intake: FileIntake::new(&header, index, None, limits),
            staged: None,
            writer: 0,
            declared: None,
        };
        Self {
            id,
            fronts: Mutex::new(intake.fronts()),
            intake: Mutex::new(intake),
            slots: (0..files).map(|index| Arc::new(tokio::sync::Mutex::new(slot(index)))).collect(),
            claims: (0..files).map(|_| watch::Sender::new(0)).collect(),
            read_back: watch::Sender::new(None),
            header,
            header_digest,
        }
    }

    /// An upload as its rows and stored bytes describe it. Blocks.
    pub(super) fn load(
        id: &str,
        row: &UploadRow,
        (header_text, walks): (Vec<u8>, Option<Vec<u8>>),
        blobs: &LocalBlobs,
        limits: &Limits,
    ) -> Result<Self, ServiceError> {
        let header = Arc::new(Header::parse(&header_text, limits)?);
        drop(header_text);
        let session = Self::new(Some(id.to_owned()), header, row.header_digest, limits);
        let mut sound = vec![0; session.slots.len()];
        let mut doubtful = Vec::new();
        for file in &row.files {
            let Some(slot) = session.slots.get(file.position) else { continue };
            let mut slot = slot.try_lock().map_err(|_| ServiceError::Cut("the session is busy".to_owned()))?;
            slot.declared = file.length;
            let Some(key) = file.key.as_deref().and_then(BlobKey::parse) else { continue };
            let Ok((mut staged, stamp)) = blobs.reopen(key, file.stored) else {
                tracing::warn!(upload.id = id, file.position, "staged bytes are missing; the file starts again");
                continue;
            };
            slot.intake = FileIntake::new(&session.header, file.position, file.length, limits);
            session.recall(&mut slot.intake, &mut staged)?;
            let context = file_context(id, file.position, &stamp);
            let state = file.digest_state.as_deref().and_then(|sealed| unseal(&context, sealed));
            if state.is_some_and(|state| slot.intake.restore(state)) {
                sound[file.position] = file.stored;
            } else {
                doubtful.push(file.position);
            }
            slot.staged = Some(staged);
        }
        if let Some(states) = walks.as_deref().and_then(|sealed| open_walks(id, sealed)) {
            lock(&session.intake).restore(&states, &sound);
        }
        for position in doubtful {
            session.rehash(position)?;
        }
        session.publish_fronts();
        Ok(session)
    }

    /// Brings a file's intake to where its stored bytes end, without reading more of them than its header.
    fn recall(&self, intake: &mut FileIntake, staged: &mut StagedBlob) -> Result<(), ServiceError> {
        let mut buffer = vec![0; 64 << 10];
        let is_index = intake.index() == self.header.weight_files.len();
        while intake.seen() < staged.len() && (is_index || intake.container().is_none()) {
            let take = chunk_len(&buffer, staged.len() - intake.seen());
            staged.read_at(&mut buffer[..take], intake.seen()).map_err(ServiceError::io("read staged bytes"))?;
            if intake.check(&buffer[..take])?
                && let Some(container) = intake.container()
            {
                lock(&self.intake).place(intake.index(), container)?;
                intake.release_tensors();
            }
        }
        if intake.skip(staged.len() - intake.seen()) {
            return Ok(());
        }
        Err(DomainError::integrity("more bytes are staged than the file has").into())
    }

    /// Computes a file's own digest from its stored bytes, and with the same reading whatever else continues there.
    /// After a crash, or when somebody has touched the file, nothing that was remembered of its bytes is believed.
    fn rehash(&self, position: usize) -> Result<(), ServiceError> {
        let mut slot =
            self.slots[position].try_lock().map_err(|_| ServiceError::Cut("the session is busy".to_owned()))?;
        let Slot { intake, staged: Some(staged), .. } = &mut *slot else { return Ok(()) };
        intake.restart_digest();
        let mut buffer = vec![0; READ_BACK];
        let mut at = 0;
        while at < staged.len() {
            let take = chunk_len(&buffer, staged.len() - at);
            staged.read_at(&mut buffer[..take], at).map_err(ServiceError::io("read staged bytes"))?;
            lock(&self.intake).absorb(position, at, &buffer[..take], Some(intake));
            at += take as u64;
        }
        Ok(())
    }

    /// The position of a file in this upload.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let index = self.header.weight_files.iter().position(|file| file == name);
        index.or_else(|| (name == shards::INDEX).then_some(self.header.weight_files.len()))
    }

    /// The name of the file at a position.
    pub(super) fn name(&self, position: usize) -> &str {
        self.header.weight_files.get(position).map_or(shards::INDEX, String::as_str)
    }

    /// Tells the workers where the digests that span files continue.
    pub(super) fn publish_fronts(&self) {
        let fronts = lock(&self.intake).fronts();
        *lock(&self.fronts) = fronts;
    }

    /// True when a digest that spans files continues in these bytes.
    pub(super) fn wants(&self, file: usize, start: u64, len: u64) -> bool {
        lock(&self.fronts).iter().any(|front| front.begins_in(file, start, len))
    }
}

/// How much of `left` fits into the buffer.
pub(super) fn chunk_len(buffer: &[u8], left: u64) -> usize {
    buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX))
}

/// A hash state that waits in the database carries a checksum bound to its place and to what the file looked like, so
/// that one which no longer fits is recognised and computed anew instead of being believed.
fn seal(context: &str, payload: &[u8]) -> Vec<u8> {
    let mut sealed = checksum(context, payload).to_vec();
    sealed.extend_from_slice(payload);
    sealed
}

fn unseal<'a>(context: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (told, payload) = sealed.split_at_checked(32)?;
    (checksum(context, payload) == told).then_some(payload)
}

fn checksum(context: &str, payload: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(format!("cairn/hash-state/v1\0{context}\0").as_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn file_context(id: &str, index: usize, stamp: &Stamp) -> String {
    format!("{id}/{index}/{}", stamp.as_str())
}

#[derive(Serialize, Deserialize)]
struct SavedWalk(u64, u64, Vec<u8>);

/// The digests that span files, ready for the database.
pub(super) fn seal_walks(id: &str, states: Vec<WalkState>) -> Vec<u8> {
    let saved: Vec<_> = states.into_iter().map(|state| SavedWalk(state.piece, state.within, state.hasher)).collect();
    // Plain numbers; this cannot fail, and an empty state only costs a second reading.
    seal(id, &serde_json::to_vec(&saved).unwrap_or_default())
}

fn open_walks(id: &str, sealed: &[u8]) -> Option<Vec<WalkState>> {
    let saved: Vec<SavedWalk> = serde_json::from_slice(unseal(id, sealed)?).ok()?;
    Some(saved.into_iter().map(|SavedWalk(piece, within, hasher)| WalkState { piece, within, hasher }).collect())
}

/// A file's own digest, ready for the database.
pub(super) fn seal_file(id: &str, intake: &FileIntake, stamp: &Stamp) -> Vec<u8> {
    seal(&file_context(id, intake.index(), stamp), &intake.save())
}
