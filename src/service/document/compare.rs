//! What a document says, compared with what its run is pinned to and has committed.

use serde_json::json;

use crate::core::digest::{ContentHash, GroupHash, ProbeHash};
use crate::core::document::evidence::Bundle;
use crate::core::document::round_message::{RoundClose, RoundOpen};
use crate::core::document::run_manifest::{RunManifest, RunMode};
use crate::core::document::{Document, Kind};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::run::Pins;
use crate::service::error::ServiceError;
use crate::service::registry::Registry;
use crate::service::run::COORDINATOR;
use crate::store::meta::run::RunRow;

impl Registry {
    /// Compares a document with the run; what it refers to and nobody holds.
    pub(super) async fn compare(&self, run: &RunRow, document: &Document) -> Result<Vec<String>, ServiceError> {
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
            _ => Err(crate::service::lookup::unreadable("documents", "body")),
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
            // The seed follows from the manifest, so the message is wrong in itself, whatever the run stands at.
            return Err(ServiceError::Malformed(
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
        let text = |hash: Option<GroupHash>| hash.map(|hash| hash.to_string());
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

pub(in crate::service) fn check_probe(pins: &Pins, probe: Option<ProbeHash>) -> Result<(), ServiceError> {
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
