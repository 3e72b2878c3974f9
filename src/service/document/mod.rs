//! Documents of a run: read, compared with what the run is pinned to, kept as they came.

pub(super) mod compare;

use serde_json::json;

use super::error::ServiceError;
use super::fetch::Fetched;
use super::registry::{Registry, now_micros, rfc3339};
use super::run::{bad_cursor, no_run};
use crate::api::route;
use crate::api::run::{Commitment, Commitments, Document as View, Documents};
use crate::core::digest::BlobDigest;
use crate::core::document::kind::{PUBLIC_PROBE, same_name};
use crate::core::document::migrate::latest;
use crate::core::document::{Document, Kind};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::lineage;
use crate::core::run::{Name, is_participant};
use crate::store::meta::document::{CommitmentRow, DocumentBytes, DocumentRow, Keeping, NewDocument};

/// Bytes of a document.
pub const LARGEST: u64 = 1 << 20;

/// The longest summary that a list shows.
const LONGEST_SUMMARY: usize = 4096;

/// From which round on a commitment holds, and for whom.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The participant.
    pub participant: String,
    /// The first round; the open one when absent.
    pub from_round: Option<u64>,
}

impl Registry {
    /// Keeps a document of a run; whether it is new.
    ///
    /// # Errors
    /// When it does not follow its schema, contradicts what the run is pinned to, or holds what must not leave its
    /// owner; then nothing of it is kept.
    pub async fn keep_document(&self, run: &Name, kind: &str, body: Vec<u8>) -> Result<(View, bool), ServiceError> {
        let kind = self.kind(kind).await?;
        self.keep(run, kind, body, None).await
    }

    /// Keeps what a participant has committed to; whether it is new.
    ///
    /// # Errors
    /// As for documents; and when the participant is none of the run's, or holds the round already.
    pub async fn keep_commitment(
        &self,
        run: &Name,
        holding: Holding,
        body: Vec<u8>,
    ) -> Result<(Commitment, bool), ServiceError> {
        let row = self.run_row(run).await?;
        if !is_participant(&holding.participant) {
            let message = "a participant has a name of 1 to 128 characters without control characters";
            return Err(DomainError::new(ErrorCode::ConfigInvalid, message).field("key", "participant").into());
        }
        let from_round = holding.from_round.unwrap_or_else(|| row.tip.map_or(0, |tip| tip.round));
        let held = (holding.participant.clone(), from_round);
        let (_, created) = self.keep(run, Kind::DatasetCommitment, body, Some(held)).await?;
        let kept = self.meta.commitments(run).await?;
        let kept = kept
            .into_iter()
            .find(|kept| kept.participant == holding.participant && kept.from_round == from_round)
            .ok_or_else(|| ServiceError::not_found("the commitment"))?;
        Ok((commitment_view(kept), created))
    }

    async fn kind(&self, name: &str) -> Result<Kind, ServiceError> {
        if let Some(kind) = Kind::parse(name) {
            return Ok(kind);
        }
        let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).chain([PUBLIC_PROBE]).collect();
        let error = DomainError::new(ErrorCode::ResidencyViolation, "documents of this kind are not taken")
            .field("boundary", "the kinds of documents that are known")
            .field("known", known)
            .remedy(
                "Only documents of the known kinds can be shown to hold nothing private. A ContributionRecord enters \
                 with its commit.",
            )
            .invariant("INV-RESIDENCY");
        self.witness(&error, None).await;
        Err(error.into())
    }

    async fn keep(
        &self,
        run: &Name,
        kind: Kind,
        body: Vec<u8>,
        held: Option<(String, u64)>,
    ) -> Result<(View, bool), ServiceError> {
        let row = self.run_row(run).await?;
        let (decoded, body) =
            tokio::task::spawn_blocking(move || (Document::decode_versioned(kind, &body), body)).await?;
        let (document, version) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                self.witness(&error, None).await;
                return Err(ServiceError::Malformed(error));
            }
        };
        let missing = match self.compare(&row, &document).await {
            Ok(missing) => missing,
            Err(error) => {
                if let Some(error) = error.domain() {
                    self.witness(error, None).await;
                }
                return Err(error);
            }
        };
        let summary = summary(&document, &missing);
        let digest = BlobDigest::of(&body);
        let commitment = match (&document, &held) {
            (Document::DatasetCommitment(said), Some((participant, from_round))) => Some(lineage::Commitment {
                participant,
                from_round: *from_round,
                root: said.merkle_root,
                wmcp_version: &said.wmcp_version,
                digest,
            }),
            _ => None,
        };
        let new = NewDocument {
            kind: kind.name(),
            digest,
            schema_version: version,
            size: body.len() as u64,
            bytes: DocumentBytes::Here(&body),
            summary: &summary,
            at: now_micros(),
        };
        let told = |row: &DocumentRow| {
            let mut data = json!({"run": run.as_str(), "kind": row.kind, "digest": row.digest});
            if let Some((participant, from_round)) = &held {
                data["participant"] = json!(participant);
                data["from_round"] = json!(from_round);
            }
            (if held.is_some() { "dataset.committed" } else { "document.added" }, data.to_string())
        };
        match self.meta.keep_document(run, &new, commitment.as_ref(), told).await? {
            Keeping::NoRun => Err(no_run()),
            Keeping::Refused(error) => {
                self.witness(&error, None).await;
                Err(ServiceError::Conflict(error))
            }
            Keeping::Done { row, created, .. } => {
                if created {
                    // A coordinator's manifest gives the head its sketch seed.
                    self.heads.changed();
                    self.news.tell(run);
                    tracing::info!(run.id = %run, document.kind = row.kind, document.digest = %row.digest,
                        "document kept");
                }
                Ok((view(run, row), created))
            }
        }
    }

    /// Documents of a run, newest first.
    ///
    /// # Errors
    /// When there is no run of this name, or the cursor is none of ours.
    pub async fn documents(
        &self,
        run: &Name,
        kind: Option<&str>,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Documents, ServiceError> {
        self.run_row(run).await?;
        let below = cursor.map_or(Ok(u64::MAX), str::parse).map_err(|_| bad_cursor())?;
        let kind = kind.map(canonical_name);
        let mut rows = self.meta.documents(run, kind, below, limit + 1).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next_cursor = rows.last().filter(|_| more).map(|last| last.seq.to_string());
        Ok(Documents { documents: rows.into_iter().map(|row| view(run, row)).collect(), next_cursor })
    }

    /// A document's bytes as they came.
    ///
    /// # Errors
    /// When it is not here, or damaged.
    pub async fn fetch_document(&self, run: &Name, kind: &str, digest: BlobDigest) -> Result<Fetched, ServiceError> {
        if same_name(kind, PUBLIC_PROBE) {
            return self.fetch_probe(run, digest).await;
        }
        let body = self.document_body(run, kind, digest).await?;
        Ok(Fetched::literal(body, digest, format!("{}.json", canonical_name(kind))))
    }

    async fn document_body(&self, run: &Name, kind: &str, digest: BlobDigest) -> Result<Vec<u8>, ServiceError> {
        self.run_row(run).await?;
        let kind = canonical_name(kind);
        let body = self.meta.document_body(run, kind, digest).await?;
        let body = body.ok_or_else(|| ServiceError::not_found("a document of this kind and digest"))?;
        if BlobDigest::of(&body) != digest {
            let error = DomainError::integrity("the stored document is not what was received")
                .field("expected_hash", digest.to_string())
                .field("path", kind.to_owned());
            self.witness(&error, None).await;
            return Err(ServiceError::Damaged(error));
        }
        Ok(body)
    }

    /// A document in the newest schema version of its kind.
    ///
    /// No kind has had a migration that changes its fields yet, so the newest view differs from the original in its
    /// version only where an older one is read alike.
    ///
    /// # Errors
    /// When it is not here, or damaged.
    pub async fn fetch_latest_view(&self, run: &Name, kind: &str, digest: BlobDigest) -> Result<Fetched, ServiceError> {
        let original = self.document_body(run, kind, digest).await?;
        let view = match Kind::parse(kind) {
            Some(kind) => tokio::task::spawn_blocking(move || latest(kind, &original)).await??,
            None => original,
        };
        let digest = BlobDigest::of(&view);
        Ok(Fetched::literal(view, digest, format!("{kind}.json")))
    }

    /// Every commitment of a run, or of one participant.
    ///
    /// # Errors
    /// When there is no run of this name.
    pub async fn commitments(&self, run: &Name, participant: Option<&str>) -> Result<Commitments, ServiceError> {
        self.run_row(run).await?;
        let rows = self.meta.commitments(run).await?;
        let wanted = |row: &CommitmentRow| participant.is_none_or(|name| row.participant == name);
        Ok(Commitments { commitments: rows.into_iter().filter(wanted).map(commitment_view).collect() })
    }
}

/// The one spelling of a kind's name.
fn canonical_name(kind: &str) -> &str {
    match Kind::parse(kind) {
        Some(known) => known.name(),
        None if same_name(kind, PUBLIC_PROBE) => PUBLIC_PROBE,
        None => kind,
    }
}

/// What a list shows of a document. A manifest's begins with its mode, by which it is found.
pub(super) fn summary(document: &Document, missing: &[String]) -> String {
    let value = match document {
        Document::RunManifest(manifest) => {
            let mode = manifest.run_mode.as_str();
            let rest = json!({
                "config_hash": manifest.config_hash,
                "root_seed": &*manifest.root_seed,
                "participants": manifest.dataset_roots.len(),
            });
            let rest = rest.to_string();
            return format!(r#"{{"run_mode":"{mode}",{}"#, rest.trim_start_matches('{'));
        }
        Document::DatasetCommitment(said) => {
            json!({"merkle_root": said.merkle_root, "episode_count": said.episode_count})
        }
        Document::EvalReport(report) => json!({
            "checkpoint_hash": report.checkpoint_hash,
            "success_rate": report.success_rate,
        }),
        Document::FrameDriftReport(report) => json!({"round_index": report.round_index}),
        Document::FrameDriftRecord(record) => json!({"round_index": record.round_index}),
        Document::AlignmentClaim(claim) => json!({"round_index": claim.round_index}),
        Document::AlignmentRecomputation(again) => json!({
            "round_index": again.recomputed.round_index,
            "matches_expected": again.matches_expected,
        }),
        Document::RoundOpen(open) => json!({"round_index": open.round_index}),
        Document::RoundClose(close) => {
            json!({"round_index": close.round_index, "global_model_hash": close.global_model_hash})
        }
        Document::EvidenceBundle(bundle) | Document::ReleaseBundle(bundle) => {
            json!({"references": bundle.references.len(), "missing": missing})
        }
    };
    let text = value.to_string();
    if text.len() > LONGEST_SUMMARY { "{}".to_owned() } else { text }
}

pub(super) fn view(run: &Name, row: DocumentRow) -> View {
    let digest = row.digest.to_string();
    View {
        url: route::document(run.as_str(), &row.kind, &digest),
        kind: row.kind,
        digest,
        schema_version: row.schema_version,
        size: row.size,
        received_at: rfc3339(row.received_at),
        summary: serde_json::from_str(&row.summary).unwrap_or_default(),
    }
}

fn commitment_view(row: CommitmentRow) -> Commitment {
    Commitment {
        participant: row.participant,
        from_round: row.from_round,
        merkle_root: row.merkle_root.to_string(),
        digest: row.digest.to_string(),
        received_at: rfc3339(row.received_at),
    }
}
