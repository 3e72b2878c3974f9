//! The end of an upload: read back what arrived out of order, judge, make durable, make visible.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedMutexGuard;
use tracing::Instrument as _;

use super::error::ServiceError;
use super::registry::{Registry, now_micros};
use super::session::{READ_BACK, Session, Slot, chunk_len, lock};
use super::upload::check_open;
use crate::api::artifact::Artifact;
use crate::api::problem::Problem;
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::{FileIntake, Verified};
use crate::core::limits::Limits;
use crate::store::blob::BlobKey;
use crate::store::meta::StoreError;
use crate::store::meta::publish::{HeaderText, ReadyBlob, Stored};

/// A stored artifact, and whether it is new.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The artifact.
    pub artifact: Arc<Artifact>,
    /// False when it was there already.
    pub created: bool,
    /// Things worth knowing about what was sent.
    pub warnings: Vec<String>,
}

pub(super) type Slots = Vec<OwnedMutexGuard<Slot>>;

impl Registry {
    /// Verifies a session and makes its artifact visible. Goes on when the caller goes away; repeating it is harmless.
    ///
    /// # Errors
    /// When files are missing (the session stays open), or the bytes are not what the header says (they are dropped).
    pub async fn finish_upload(self: &Arc<Self>, id: &str) -> Result<Finished, ServiceError> {
        let (registry, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move { registry.finish_session(&id).await }.in_current_span()).await?
    }

    async fn finish_session(self: &Arc<Self>, id: &str) -> Result<Finished, ServiceError> {
        let cell = match self.session(id).await {
            Ok(cell) => cell,
            Err(error) => return self.finished_before(id, error).await,
        };
        let session = cell.get().ok_or_else(|| ServiceError::not_found("the upload session"))?;
        let mut slots = Vec::with_capacity(session.slots.len());
        for (slot, claims) in session.slots.iter().zip(&session.claims) {
            claims.send_modify(|claim| *claim += 1);
            slots.push(Arc::clone(slot).lock_owned().await);
        }
        // Whoever held the slots before may have been another finish.
        if let Err(error) = self.meta.upload(id).await?.map_or(Ok(()), |row| check_open(&row)) {
            return self.finished_before(id, error).await;
        }
        check_complete(session, &slots)?;
        let judging = Arc::clone(&cell);
        let start = Instant::now();
        let (result, mut slots) = tokio::task::spawn_blocking(move || {
            let result = judging.get().map(|session| judge(session, &mut slots));
            (result, slots)
        })
        .await?;
        self.metrics.verify_seconds.observe(start.elapsed().as_secs_f64());
        match result.unwrap_or_else(|| Err(ServiceError::not_found("the upload session"))) {
            Ok((verified, blobs)) => {
                let header = (HeaderText::Upload(id), session.header_digest);
                let finished = self.publish(&verified, header, blobs).await.inspect_err(|_| {
                    // Its digests are finished; whoever tries again starts from the rows.
                    self.forget_session(session);
                })?;
                slots.iter_mut().for_each(|slot| slot.staged = None);
                Ok(finished)
            }
            Err(error) => {
                if let Some(domain) = error.domain() {
                    let problem = serde_json::to_string(&Problem::new(domain, 0)).unwrap_or_default();
                    let keys = self.meta.close_upload(id, "refused", Some(&problem)).await?;
                    self.heads.changed();
                    slots.iter_mut().for_each(|slot| slot.staged = None);
                    self.discard(keys.iter().filter_map(|key| BlobKey::parse(key)).collect()).await;
                    self.witness(domain, Some(session.header.content_hash)).await;
                }
                self.forget_session(session);
                Err(error)
            }
        }
    }

    /// The answer of an earlier finish, if that is why the session is over.
    async fn finished_before(&self, id: &str, error: ServiceError) -> Result<Finished, ServiceError> {
        // Not everything that a client may say is a text that every database understands.
        let row = match BlobKey::parse(id) {
            Some(_) => self.meta.upload(id).await?,
            None => None,
        };
        match row {
            Some(row) if row.state == "finished" => {
                Ok(Finished { artifact: self.artifact(row.content_hash).await?, created: false, warnings: Vec::new() })
            }
            _ => Err(error),
        }
    }

    /// Refuses a header that contradicts the one which is stored under the same hash: what lies outside the hash must
    /// not be changed by a second upload.
    pub(super) async fn check_same_header(&self, header: &Header, digest: BlobDigest) -> Result<(), ServiceError> {
        match self.meta.header_digest(header.content_hash).await? {
            Some(stored) if stored != digest => self.compare_headers(header).await,
            _ => Ok(()),
        }
    }

    async fn compare_headers(&self, header: &Header) -> Result<(), ServiceError> {
        let Some(stored) = self.meta.header(header.content_hash).await? else { return Ok(()) };
        let stored = tokio::task::spawn_blocking(move || Header::parse(&stored, &Limits::STORED)).await?;
        let stored = stored.map_err(|_| StoreError::Corrupt { table: "artifacts", column: "header" })?;
        let differing: Vec<&str> = [
            ("config_hash", stored.config_hash != header.config_hash),
            ("model_arch", stored.model_arch != header.model_arch),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect();
        if differing.is_empty() {
            return Ok(());
        }
        let error = DomainError::integrity("an artifact with this content hash is stored with another header")
            .field("content_hash", header.content_hash.to_string())
            .field("reason", "metadata_conflict")
            .field("differing_fields", differing)
            .remedy("Fetch the stored header.json and use it, or find out which of the two is right.");
        self.witness(&error, Some(header.content_hash)).await;
        Err(ServiceError::Conflict(error))
    }

    /// Makes a verified artifact visible: durable files first, rows last, in one transaction.
    pub(super) async fn publish(
        &self,
        verified: &Verified,
        header: (HeaderText<'_>, BlobDigest),
        mut blobs: Vec<ReadyBlob>,
    ) -> Result<Finished, ServiceError> {
        let hash = verified.content_hash();
        self.check_same_header(verified.header(), header.1).await?;
        for (file, ready) in verified.files().iter().zip(&mut blobs) {
            if let Some(row) = self.meta.blob(file.digest).await?
                && !self.looks_right(&row).await?
            {
                ready.replaces = Some(row.key);
            }
        }
        let stored = self.meta.store_artifact(verified, header, &blobs, now_micros()).await?;
        self.memory.forget(hash);
        self.heads.changed();
        let (created, same, unused) = match stored {
            Stored::Created { unused } => (true, true, unused),
            Stored::Existed { unused, same_header } => {
                if !same_header {
                    self.compare_headers(verified.header()).await?;
                }
                (false, same_header, unused)
            }
        };
        self.shelf.forget(verified.files().iter().map(|file| file.digest));
        self.discard(unused.iter().filter_map(|key| BlobKey::parse(key)).collect()).await;
        tracing::info!(artifact.hash = %hash, created, "artifact stored");
        // A header can be large, and this one is at hand.
        let artifact = if same { self.describe_stored(verified.header()).await? } else { self.artifact(hash).await? };
        Ok(Finished {
            artifact,
            created,
            warnings: verified.warnings().iter().map(|text| (*text).to_owned()).collect(),
        })
    }
}

/// Refuses while files are missing or incomplete, and says which; nothing is lost by that.
pub(super) fn check_complete(session: &Session, slots: &Slots) -> Result<(), ServiceError> {
    let weights = session.header.weight_files.len();
    let missing: Vec<&str> = (0..weights)
        .filter(|position| slots[*position].staged.is_none())
        .map(|position| session.name(position))
        .collect();
    if !missing.is_empty() {
        return Err(DomainError::integrity(format!("{} of {weights} weight files have not arrived", missing.len()))
            .field("missing", missing)
            .remedy("Send the missing files, then finish.")
            .into());
    }
    for (position, slot) in slots.iter().enumerate().take(weights) {
        let (received, expected) = (slot.intake.seen(), slot.intake.expected_len().or(slot.declared));
        if expected.is_none_or(|expected| received < expected) {
            let of = expected.map_or_else(String::new, |expected| format!(" of {expected}"));
            return Err(DomainError::new(
                ErrorCode::CheckpointIntegrity,
                format!("received {received}{of} bytes of a weight file"),
            )
            .field("file", session.name(position))
            .field("received", received)
            .field("expected", expected)
            .into());
        }
    }
    Ok(())
}

/// Reads back what arrived out of order, compares every promise of the header, and makes the files durable. Blocks.
pub(super) fn judge(session: &Session, slots: &mut Slots) -> Result<(Verified, Vec<ReadyBlob>), ServiceError> {
    let mut intake = lock(&session.intake);
    let mut buffer = vec![0; READ_BACK];
    let mut read = 0;
    while let Some(extent) = intake.pending() {
        let Some(staged) = slots.get_mut(extent.file).and_then(|slot| slot.staged.as_mut()) else { break };
        let take = chunk_len(&buffer, extent.len);
        staged.read_at(&mut buffer[..take], extent.start).map_err(ServiceError::io("read staged bytes"))?;
        intake.absorb(extent.file, extent.start, &buffer[..take], None);
        read += take as u64;
        session.read_back.send_replace(Some(read));
    }
    let files: Vec<&FileIntake> = slots.iter().filter(|slot| slot.staged.is_some()).map(|slot| &slot.intake).collect();
    let verified = intake.finish(&files, None)?;
    // The recipes of a large header take megabytes, and the database will want some too.
    intake.release();
    drop(intake);
    let blobs = slots
        .iter_mut()
        .filter_map(|slot| slot.staged.as_mut())
        .map(|staged| {
            staged.sync().map_err(ServiceError::io("make the file durable"))?;
            let stamp = staged.stamp().map_err(ServiceError::io("look at the file"))?;
            Ok(ReadyBlob { key: staged.key().to_string(), stamp: stamp.as_str().to_owned(), replaces: None })
        })
        .collect::<Result<_, ServiceError>>()?;
    Ok((verified, blobs))
}

/// The keys of everything that an upload has put on the disk.
pub(super) fn staged_keys(slots: &Slots) -> Vec<BlobKey> {
    slots.iter().filter_map(|slot| slot.staged.as_ref().map(|staged| staged.key().clone())).collect()
}

/// The refusal of an artifact that was sent to another hash than its own.
pub(super) fn wrong_address(asked: ContentHash, header: ContentHash) -> DomainError {
    crate::core::intake::hash_mismatch(&asked.to_string(), &header.to_string())
        .remedy("Send the artifact to the content hash in its own header.json.")
}
