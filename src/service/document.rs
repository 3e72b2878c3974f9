//! Documents of a run: read, compared with what the run is pinned to, kept as they came.

use serde_json::json;

use super::error::ServiceError;
use super::fetch::Fetched;
use super::registry::{Registry, now_micros, rfc3339};
use super::run::{COORDINATOR, bad_cursor, no_run};
use crate::api::route;
use crate::api::run::{Commitment, Commitments, Document as View, Documents};
use crate::core::digest::{BlobDigest, ContentHash, ProbeHash};
use crate::core::document::evidence::Bundle;
use crate::core::document::kind::{PUBLIC_PROBE, same_name};
use crate::core::document::migrate::latest;
use crate::core::document::round_message::{RoundClose, RoundOpen};
use crate::core::document::run_manifest::{RunManifest, RunMode};
use crate::core::document::{Document, Kind};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::run::{Name, Pins};
use crate::store::meta::document::{CommitmentRow, DocumentBytes, DocumentRow, Keeping, NewCommitment, NewDocument};
use crate::store::meta::run::RunRow;

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
        let from_round = holding.from_round.unwrap_or_else(|| row.tip.map_or(0, |tip| tip.round));
        let digest = BlobDigest::of(&body);
        let held = (holding.participant.clone(), from_round);
        let (_, created) = self.keep(run, Kind::DatasetCommitment, body, Some(held)).await?;
        let kept = self.meta.commitments(run).await?;
        let kept = kept
            .into_iter()
            .find(|kept| kept.participant == holding.participant && kept.from_round == from_round)
            .ok_or_else(|| ServiceError::not_found("the commitment"))?;
        debug_assert!(!created || kept.digest == digest);
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
                return Err(error.into());
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
        let commitment = match (&document, &held) {
            (Document::DatasetCommitment(said), Some((participant, from_round))) => Some(NewCommitment {
                participant,
                from_round: *from_round,
                root: said.merkle_root,
                wmcp_version: &said.wmcp_version,
            }),
            _ => None,
        };
        let new = NewDocument {
            kind: kind.name(),
            digest: BlobDigest::of(&body),
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
                    self.heads.forget(run);
                    self.news.tell(run);
                    tracing::info!(run.id = %run, document.kind = row.kind, document.digest = %row.digest, "document kept");
                }
                Ok((view(run, row), created))
            }
        }
    }

    /// Compares a document with the run; what it refers to and nobody holds.
    async fn compare(&self, run: &RunRow, document: &Document) -> Result<Vec<String>, ServiceError> {
        let pins = &run.pins;
        match document {
            Document::RunManifest(manifest) => self.compare_manifest(run, manifest).await?,
            Document::DatasetCommitment(said) => check_wmcp(pins, &said.wmcp_version)?,
            Document::EvalReport(report) => self.needs_artifact(report.checkpoint_hash).await?,
            Document::FrameDriftReport(report) => check_probe(pins, Some(report.probe_hash))?,
            Document::FrameDriftRecord(record) => check_probe(pins, Some(record.probe_hash))?,
            Document::AlignmentClaim(claim) => check_probe(pins, Some(claim.probe_hash))?,
            Document::AlignmentRecomputation(again) => check_probe(pins, Some(again.recomputed.probe_hash))?,
            Document::RoundOpen(open) => self.compare_open(run, open).await?,
            Document::RoundClose(close) => self.compare_close(run, close).await?,
            Document::EvidenceBundle(bundle) => return self.missing(bundle).await,
            Document::ReleaseBundle(bundle) => {
                let missing = self.missing(bundle).await?;
                if !missing.is_empty() {
                    return Err(DomainError::invalid("the release names bytes that are not in this registry")
                        .field("missing", missing)
                        .remedy("Push the checkpoint and send the documents first, then the release.")
                        .into());
                }
            }
        }
        Ok(Vec::new())
    }

    async fn compare_manifest(&self, run: &RunRow, manifest: &RunManifest) -> Result<(), ServiceError> {
        let pins = &run.pins;
        check_wmcp(pins, &manifest.wmcp_version)?;
        if pins.probe_hash.is_some() || manifest.probe_hash.is_some() {
            check_probe(pins, manifest.probe_hash)?;
        }
        if manifest.run_mode != RunMode::Coordinator {
            return Ok(());
        }
        if pins.config_hash.is_some_and(|pin| pin != manifest.config_hash) {
            let error = DomainError::new(
                ErrorCode::ConfigInvalid,
                "the coordinator's manifest has another configuration than the run is pinned to",
            );
            return Err(ServiceError::Conflict(
                error
                    .field("key", "config_hash")
                    .field("expected", pins.config_hash.map(|pin| pin.to_string()))
                    .field("value", manifest.config_hash.to_string()),
            ));
        }
        let Some((_, earlier)) = self.meta.newest_document(&pins.run, Kind::RunManifest.name(), COORDINATOR).await?
        else {
            return Ok(());
        };
        let earlier = tokio::task::spawn_blocking(move || Document::decode(Kind::RunManifest, &earlier)).await?;
        match earlier {
            Ok(Document::RunManifest(earlier)) => Ok(manifest.revises(&earlier).map_err(ServiceError::Conflict)?),
            _ => Err(super::lookup::unreadable("documents", "body")),
        }
    }

    async fn needs_artifact(&self, hash: ContentHash) -> Result<(), ServiceError> {
        if self.meta.link(hash).await?.is_some() {
            return Ok(());
        }
        Err(DomainError::new(ErrorCode::EvaluationFailed, "the report is about a checkpoint that is not here")
            .field("phase", "ingest")
            .field("cause", "unknown_checkpoint")
            .field("checkpoint_hash", hash.to_string())
            .remedy("Push the checkpoint first.")
            .into())
    }

    async fn compare_open(&self, run: &RunRow, open: &RoundOpen) -> Result<(), ServiceError> {
        let pins = &run.pins;
        if pins.probe_hash.is_some() || open.probe_hash.is_some() {
            check_probe(pins, open.probe_hash)?;
        }
        if let Some(seed) = self.sketch_seed(&pins.run, open.round_index).await?
            && seed != open.sketch_seed
        {
            return Err(ServiceError::Conflict(
                DomainError::new(
                    ErrorCode::ConfigInvalid,
                    "the sketch seed is not the one that the run's manifest implies",
                )
                .field("key", "sketch_seed")
                .field("expected", seed)
                .field("value", open.sketch_seed)
                .invariant("INV-SKETCH-CONSISTENCY"),
            ));
        }
        let round = self.meta.round(&pins.run, open.round_index).await?.ok_or_else(|| {
            ServiceError::Conflict(
                DomainError::new(ErrorCode::RoundFailed, "this round is not committed, so it cannot be opened")
                    .field("reason", "unknown_round")
                    .field("round", open.round_index),
            )
        })?;
        if round.theta == Some(open.theta_ref_hash) && round.phi == Some(open.phi_ref_hash) {
            return Ok(());
        }
        let text = |hash: Option<crate::core::digest::GroupHash>| hash.map(|hash| hash.to_string());
        Err(ServiceError::Conflict(
            DomainError::integrity("the message names other weights than the round begins with")
                .field("round", open.round_index)
                .field("expected_hash", json!([text(round.theta), text(round.phi)]))
                .field("got_hash", json!([open.theta_ref_hash, open.phi_ref_hash])),
        ))
    }

    /// The closing of round t names the checkpoint with index t + 1.
    async fn compare_close(&self, run: &RunRow, close: &RoundClose) -> Result<(), ServiceError> {
        let made = self.meta.round(&run.pins.run, close.round_index + 1).await?;
        if made.as_ref().is_some_and(|round| round.content_hash == close.global_model_hash) {
            return Ok(());
        }
        Err(ServiceError::Conflict(
            DomainError::new(
                ErrorCode::ProvenanceFailed,
                "the closing of round t must name the committed checkpoint with round index t + 1",
            )
            .field("cause", "round_off_by_one")
            .field("expected", made.map(|round| round.content_hash.to_string()))
            .field("got", close.global_model_hash.to_string()),
        ))
    }

    async fn missing(&self, bundle: &Bundle) -> Result<Vec<String>, ServiceError> {
        let mut missing = Vec::new();
        for reference in &bundle.references {
            if !self.meta.holds_bytes(reference.sha256).await? {
                missing.push(reference.role.clone());
            }
        }
        Ok(missing)
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
        let rows = self.meta.documents(run, kind, below, limit).await?;
        let next_cursor = rows.last().filter(|_| rows.len() == limit as usize).map(|last| last.seq.to_string());
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

fn check_wmcp(pins: &Pins, version: &str) -> Result<(), ServiceError> {
    if pins.wmcp_version == version {
        return Ok(());
    }
    Err(ServiceError::Conflict(
        DomainError::new(
            ErrorCode::WmcpContractViolation,
            "the document has another contract version than the run is pinned to",
        )
        .field("wmcp_version", &*pins.wmcp_version)
        .field("field", "wmcp_version")
        .invariant("INV-WMCP"),
    ))
}

pub(super) fn check_probe(pins: &Pins, probe: Option<ProbeHash>) -> Result<(), ServiceError> {
    // A run without a probe has nothing to hold a document against.
    if pins.probe_hash.is_none() || pins.probe_hash == probe {
        return Ok(());
    }
    let text = |hash: Option<ProbeHash>| hash.map(|hash| hash.to_string());
    Err(ServiceError::Conflict(
        DomainError::new(ErrorCode::ProbeInvalid, "the document has another probe than the run is pinned to")
            .field("expected_hash", text(pins.probe_hash))
            .field("got_hash", text(probe))
            .invariant("INV-PROBE-PIN"),
    ))
}

/// What a list shows of a document. A manifest's begins with its mode, by which it is found.
fn summary(document: &Document, missing: &[String]) -> String {
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
