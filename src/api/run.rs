//! What runs, rounds and news of them look like from outside.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::artifact::ParamRef;

/// What `POST /v1/runs` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewRun {
    /// The run's name: 1 to 128 of `A-Z a-z 0-9 . _ -`, not beginning with `.` or `-`.
    pub run: String,
    /// The consortium that trains; a name like the run's.
    pub consortium: String,
    /// The contract version of every checkpoint and document.
    pub wmcp_version: String,
    /// Full hash (version 2) of the public probe; absent, null or all zeros when the run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_hash: Option<String>,
    /// Version of the probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_version: Option<u64>,
    /// Hash of the coordinator's configuration, which every checkpoint must then carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// What the encoder of round 0 must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<WarmStart>,
    /// Who may contribute; empty means anybody with a commitment.
    #[serde(default)]
    pub participants: Vec<String>,
    /// Fewest contributors of a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_participants: Option<u64>,
    /// `members`, `released` or `public`; `members` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
}

/// Where the encoder of round 0 comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WarmStart {
    /// Name of the release.
    pub release: String,
    /// H2 of the encoder that every participant begins with.
    pub encoder_group_hash: String,
    /// SHA-256 of the file it was published as.
    #[serde(default)]
    pub file_hash: Option<String>,
    /// H1 of the checkpoint it was taken from.
    #[serde(default)]
    pub source_checkpoint: Option<String>,
}

/// A run: its pins, which never change, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Its name.
    pub run: String,
    /// The consortium that trains.
    pub consortium: String,
    /// The pinned contract version.
    pub wmcp_version: String,
    /// The pinned probe.
    pub probe_hash: Option<String>,
    /// Version of the probe.
    pub probe_version: Option<u64>,
    /// The pinned configuration.
    pub config_hash: Option<String>,
    /// The pinned beginning.
    pub warm_start: Option<WarmStart>,
    /// Declared participants, sorted.
    pub participants: Vec<String>,
    /// Fewest contributors of a round.
    pub min_participants: Option<u64>,
    /// Who may read.
    pub visibility: String,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// The newest round; null before round 0.
    pub head_round: Option<u64>,
    /// H1 of its checkpoint.
    pub head_hash: Option<String>,
    /// Records in the ledger.
    pub ledger_count: u64,
}

/// A page of runs, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Runs {
    /// The runs.
    pub runs: Vec<Run>,
    /// What to send as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// What a run stands at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Head {
    /// The run's name.
    pub run: String,
    /// The consortium that trains.
    pub consortium: String,
    /// The newest round t, whose training is under way; null before round 0.
    pub round_index: Option<u64>,
    /// H1 of its checkpoint.
    pub content_hash: Option<String>,
    /// H1 of the parent.
    pub parent_hash: Option<String>,
    /// The encoder that round t begins with.
    pub theta_ref: Option<ParamRef>,
    /// The predictor that round t begins with.
    pub phi_ref: Option<ParamRef>,
    /// Seed of round t's sketch, once the coordinator's RunManifest is here.
    pub sketch_seed: Option<u64>,
    /// The pinned probe; 64 zeros when the run has none, as in Lensemble's messages.
    pub probe_hash: String,
    /// The pinned contract version.
    pub wmcp_version: String,
    /// Hash of the last ledger record, which the next one must name.
    pub ledger_tail: Option<String>,
    /// Round of the last ledger record.
    pub ledger_round: Option<u64>,
    /// Records in the ledger.
    pub ledger_count: u64,
    /// Which attempt at round t this is: 1, and one more for each abort.
    pub attempt: u64,
    /// Open upload sessions for the checkpoint that would be the next round.
    pub open_sessions: Vec<OpenSession>,
    /// The newest event.
    pub event_id: u64,
    /// What can be resumed from a head: `warm-restart`. Optimizer momentum is not part of a checkpoint.
    pub resume: String,
}

/// An upload that a coordinator may continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenSession {
    /// Its name.
    pub id: String,
    /// H1 that its header claims.
    pub content_hash: String,
    /// Until when it can be continued.
    pub expires_at: String,
    /// Where it is, relative to this server.
    pub url: String,
}

/// What `POST /v1/runs/{run}/commits` takes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCommit {
    /// H1 of the checkpoint.
    pub content_hash: String,
    /// Its round index: t + 1 when it closes round t.
    pub round_index: u64,
    /// H1 of its parent, which must be the head; null for round 0.
    #[serde(default)]
    pub parent_hash: Option<String>,
    /// The ContributionRecord of round t, whose `global_model_hash` is this checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub record: Option<Box<serde_json::value::RawValue>>,
    /// An upload session that holds the checkpoint; it is finished first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
}

/// A committed round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Round {
    /// The run's name.
    pub run: String,
    /// Its index.
    pub round_index: u64,
    /// H1 of the checkpoint.
    pub content_hash: String,
    /// H1 of the parent; null at round 0.
    pub parent_hash: Option<String>,
    /// The encoder.
    pub theta_ref: Option<ParamRef>,
    /// The predictor.
    pub phi_ref: Option<ParamRef>,
    /// Bytes of the stored files.
    pub size: u64,
    /// Which attempt succeeded.
    pub attempt: u64,
    /// RFC 3339, UTC.
    pub committed_at: String,
    /// Hash of the ledger record that entered with it: the one of the round before.
    pub record_hash: Option<String>,
}

/// A page of rounds, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rounds {
    /// The rounds.
    pub rounds: Vec<Round>,
    /// What to send as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// What `POST /v1/runs/{run}/aborts` takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAbort {
    /// The round t whose training is given up: the head's.
    pub round_index: u64,
    /// Why, as one of the error codes.
    pub reason_code: String,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An abort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Abort {
    /// The round whose training was given up.
    pub round_index: u64,
    /// Which attempt it was, from 1.
    pub attempt: u64,
    /// Why, as one of the error codes.
    pub reason_code: String,
    /// Why, in words.
    pub detail: Option<String>,
    /// RFC 3339, UTC.
    pub aborted_at: String,
}

/// A page of aborts, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Aborts {
    /// The aborts.
    pub aborts: Vec<Abort>,
    /// What to send as `cursor` for the next page; null on the last.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Where a locator leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resolved {
    /// H2 of the group.
    pub content_hash: String,
    /// The locator that this registry mints for it.
    pub locator: String,
    /// `encoder` or `predictor`.
    pub group: String,
    /// The round; null for a group that was named by its hash and is part of no round.
    pub round_index: Option<u64>,
    /// H1 of the checkpoint that holds it.
    pub artifact: String,
    /// Where it is served, relative to this server.
    pub url: String,
}

/// A document of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Document {
    /// Its kind.
    pub kind: String,
    /// SHA-256 of its bytes.
    pub digest: String,
    /// The version in the file.
    pub schema_version: u64,
    /// Bytes.
    pub size: u64,
    /// RFC 3339, UTC.
    pub received_at: String,
    /// What its kind shows of it.
    #[schema(value_type = Object)]
    pub summary: Value,
    /// Where it is served, relative to this server.
    pub url: String,
}

/// A page of documents, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Documents {
    /// The documents.
    pub documents: Vec<Document>,
    /// What to send as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
}

/// What a participant has committed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Commitment {
    /// The participant.
    pub participant: String,
    /// The first round that it holds for.
    pub from_round: u64,
    /// Root of the Merkle tree over the episodes.
    pub merkle_root: String,
    /// SHA-256 of the DatasetCommitment document.
    pub digest: String,
    /// RFC 3339, UTC.
    pub received_at: String,
}

/// Every commitment of a run, by participant and round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Commitments {
    /// The commitments.
    pub commitments: Vec<Commitment>,
}

/// What became of a ledger that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerVerdict {
    /// True when every record follows the one before, and the last is the expected one where one was expected.
    pub verify_chain: bool,
    /// Records.
    pub records: u64,
    /// Hash of the last record.
    pub head: Option<String>,
    /// The line where the chain breaks, from 1.
    pub broken_at: Option<u64>,
}

/// What became of a proof that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProofVerdict {
    /// True when the episode is under the root.
    pub included: bool,
}

/// The hash of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigHashAnswer {
    /// As Lensemble computes it.
    pub config_hash: String,
}
