//! Which checkpoint may become the next round of a run, and which record may stand beside it.
//!
//! Numbers: the checkpoint with round index t + 1 is what round t has made of the checkpoint with round index t. The
//! ledger's record of round t therefore names the checkpoint t + 1, and both enter a run in one commit.

use std::collections::BTreeMap;

use super::checkpoint::Header;
use super::digest::{BlobDigest, ConfigHash, ContentHash, DatasetRoot, GroupHash, RecordHash, Sha256Hash};
use super::document::contribution::ContributionRecord;
use super::error::{DomainError, ErrorCode};
use super::run::{LAST_ROUND, Pins, Tip};
use super::sha256::Sha256;

/// What a verified checkpoint brings to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// H1.
    pub content_hash: ContentHash,
    /// H1 of its parent.
    pub parent_hash: Option<ContentHash>,
    /// Its round index.
    pub round_index: u64,
    /// Its contract version.
    pub wmcp_version: String,
    /// Hash of the configuration it was made with.
    pub config_hash: ConfigHash,
    /// The header's schema version.
    pub schema_version: u32,
    /// Digest of its tensors' names and shapes.
    pub structure: Sha256Hash,
    /// H2 of its encoder, when it has one.
    pub encoder: Option<GroupHash>,
}

impl Candidate {
    /// Takes what matters from a header that has been verified against its weights.
    #[must_use]
    pub fn of(header: &Header, encoder: Option<GroupHash>) -> Self {
        Self {
            content_hash: header.content_hash,
            parent_hash: header.parent_hash,
            round_index: header.round_index,
            wmcp_version: header.wmcp_version.clone(),
            config_hash: header.config_hash,
            schema_version: header.schema_version,
            structure: structure(header),
            encoder,
        }
    }
}

/// Digest of the names and shapes of all tensors. Element types are not in it: a run may change its precision.
#[must_use]
pub fn structure(header: &Header) -> Sha256Hash {
    let mut hasher = Sha256::new();
    for entry in &header.manifest {
        hasher.update(&(entry.name.len() as u64).to_le_bytes());
        hasher.update(entry.name.as_bytes());
        hasher.update(&(entry.shape.len() as u64).to_le_bytes());
        for dimension in &entry.shape {
            hasher.update(&dimension.to_le_bytes());
        }
    }
    Sha256Hash::from_bytes(hasher.finalize())
}

/// A committed round, as far as the rules need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its round index.
    pub round_index: u64,
    /// H1.
    pub content_hash: ContentHash,
    /// H1 of its parent.
    pub parent_hash: Option<ContentHash>,
}

/// What a run already holds of the place that a candidate wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Where the run stands; `None` before round 0.
    pub tip: Option<Tip>,
    /// The round that was committed with the candidate's index.
    pub same_round: Option<Committed>,
    /// The round that was committed with the candidate's parent.
    pub sibling: Option<Committed>,
}

/// What a commit would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Advance the run.
    Advance,
    /// Nothing: exactly this round is committed already.
    Replay,
}

fn refuse(code: ErrorCode, reason: &'static str, message: &str, standing: &Standing) -> DomainError {
    let error = DomainError::new(code, message).field("reason", reason);
    match &standing.tip {
        Some(tip) => error.field("head_round", tip.round).field("head_content_hash", tip.content_hash.to_string()),
        None => error.field("head_round", serde_json::Value::Null),
    }
}

/// Decides whether a candidate is the next round of a run.
///
/// # Errors
/// `wmcp_contract_violation`, `config_invalid`, `round_failed`, `agg_nondeterministic` or `checkpoint_integrity`, with
/// the head and a `reason` in the fields.
pub fn place(pins: &Pins, candidate: &Candidate, standing: &Standing) -> Result<Step, DomainError> {
    if standing.same_round.is_some_and(|round| round.content_hash == candidate.content_hash) {
        return Ok(Step::Replay);
    }
    if candidate.wmcp_version != pins.wmcp_version {
        return Err(refuse(
            ErrorCode::WmcpContractViolation,
            "wmcp_changed",
            "the checkpoint has another contract version than the run is pinned to",
            standing,
        )
        .field("wmcp_version", &*pins.wmcp_version)
        .field("field", "wmcp_version")
        .invariant("INV-WMCP"));
    }
    if pins.config_hash.is_some_and(|pin| pin != candidate.config_hash) {
        return Err(refuse(
            ErrorCode::ConfigInvalid,
            "config_changed",
            "the checkpoint was made with another configuration than the run is pinned to",
            standing,
        )
        .field("key", "config_hash")
        .field("expected", pins.config_hash.map_or_else(String::new, |pin| pin.to_string())));
    }
    position(candidate, standing)?;
    match &standing.tip {
        None => warm_start(pins, candidate, standing)?,
        // A newer header schema is the one occasion at which a run may change its shape.
        Some(tip) if tip.schema_version == candidate.schema_version && tip.structure != candidate.structure => {
            return Err(refuse(
                ErrorCode::CheckpointIntegrity,
                "structure_changed",
                "the names or shapes of the tensors differ from those of the parent",
                standing,
            )
            .remedy("Commit a checkpoint of the same model, or begin a new run for another one."));
        }
        Some(_) => {}
    }
    Ok(Step::Advance)
}

/// The links: parent, round, and nobody else in the place.
fn position(candidate: &Candidate, standing: &Standing) -> Result<(), DomainError> {
    let round = candidate.round_index;
    let failed =
        |reason, message: &str| Err(refuse(ErrorCode::RoundFailed, reason, message, standing).field("round", round));
    if round > LAST_ROUND {
        return failed("round_too_large", "the round index is above 2^31 - 1");
    }
    match candidate.parent_hash {
        Some(_) if round == 0 => return failed("round_zero_with_parent", "round 0 of a run has no parent"),
        None if round > 0 => return failed("missing_parent", "only round 0 of a run has no parent"),
        _ => {}
    }
    if let Some(rival) = standing.same_round
        && rival.parent_hash == candidate.parent_hash
    {
        let message = "this round was committed with other weights: the aggregation is not deterministic, or somebody \
                       tells two stories";
        return Err(refuse(ErrorCode::AggNondeterministic, "fork", message, standing)
            .field("round", round)
            .field("expected_hash", rival.content_hash.to_string())
            .field("got_hash", candidate.content_hash.to_string())
            .invariant("INV-AGG-DETERMINISM"));
    }
    let head = standing.tip.as_ref().filter(|tip| candidate.parent_hash == Some(tip.content_hash));
    let parent_round = match (head, standing.sibling) {
        (Some(tip), _) => tip.round,
        (None, Some(sibling)) => sibling.round_index.saturating_sub(1),
        (None, None) if standing.tip.is_none() && round == 0 => return Ok(()),
        (None, None) => return failed("unknown_parent", "the parent is not the head of the run"),
    };
    if round != parent_round + 1 {
        return failed("round_not_parent_plus_one", "the round index is not that of the parent plus one");
    }
    Ok(())
}

/// Round 0 begins with the pinned encoder; the predictor is free.
fn warm_start(pins: &Pins, candidate: &Candidate, standing: &Standing) -> Result<(), DomainError> {
    let Some(pin) = &pins.warm_start else { return Ok(()) };
    if candidate.encoder == Some(pin.encoder_group_hash) {
        return Ok(());
    }
    Err(refuse(
        ErrorCode::CheckpointIntegrity,
        "warm_start_differs",
        "the encoder of round 0 is not the one that the run is pinned to",
        standing,
    )
    .field("expected_hash", pin.encoder_group_hash.to_string())
    .field("got_hash", candidate.encoder.map_or_else(String::new, |hash| hash.to_string()))
    .remedy("Begin with the encoder of the pinned release, unchanged.")
    .invariant("INV-WARMSTART-T0"))
}

/// Where a run's ledger ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerTail {
    /// Hash of the last record.
    pub record_hash: RecordHash,
    /// Its round.
    pub round_index: u64,
}

/// Decides whether a record may stand beside a commit.
///
/// `in_force` gives, for each participant that has committed to data, the root that holds at the record's round.
///
/// # Errors
/// `provenance_failed`, `fault_tolerance_exceeded` or `commitment_mismatch`.
pub fn check_record(
    pins: &Pins,
    record: &ContributionRecord,
    candidate: &Candidate,
    tail: Option<LedgerTail>,
    in_force: &BTreeMap<String, DatasetRoot>,
) -> Result<(), DomainError> {
    let provenance = |cause: &'static str, message: &str| {
        DomainError::new(ErrorCode::ProvenanceFailed, message).field("cause", cause)
    };
    if candidate.round_index == 0 {
        return Err(provenance("record_for_round_zero", "round 0 was not trained, so no record belongs to it"));
    }
    if record.round_index + 1 != candidate.round_index {
        return Err(provenance(
            "round_off_by_one",
            "the record of round t belongs to the checkpoint with round index t + 1",
        )
        .field("expected", candidate.round_index - 1)
        .field("got", record.round_index));
    }
    if record.global_model_hash != candidate.content_hash {
        return Err(provenance("other_checkpoint", "the record names another checkpoint than is committed")
            .field("expected", candidate.content_hash.to_string())
            .field("got", record.global_model_hash.to_string()));
    }
    record.follows(tail.as_ref().map(|tail| (&tail.record_hash, tail.round_index)))?;
    let present = record.participants.len() as u64;
    if let Some(minimum) = pins.min_participants.filter(|minimum| present < *minimum) {
        return Err(DomainError::new(
            ErrorCode::FaultToleranceExceeded,
            "fewer participants contributed than the run is pinned to",
        )
        .field("round", record.round_index)
        .field("present", present)
        .field("minimum", minimum));
    }
    for (participant, root) in &record.dataset_roots {
        let mismatch = |message: &str| {
            DomainError::new(ErrorCode::CommitmentMismatch, message)
                .field("participant_id", &**participant)
                .field("round", record.round_index)
                .field("got_root", root.to_string())
                .invariant("INV-COMMIT-BINDING")
        };
        if !pins.participants.is_empty() && pins.participants.binary_search(participant).is_err() {
            return Err(mismatch("a contributor is not one of the run's participants"));
        }
        match in_force.get(participant) {
            Some(committed) if committed == root => {}
            Some(committed) => {
                return Err(mismatch("a contributor's data-set root is not the one it has committed to")
                    .field("expected_root", committed.to_string()));
            }
            None => {
                return Err(mismatch("a contributor has not committed to a data set for this round")
                    .remedy("Send the participant's DatasetCommitment first."));
            }
        }
    }
    Ok(())
}

/// What a participant wants to commit to.
#[derive(Clone, Copy, Debug)]
pub struct Commitment<'a> {
    /// The participant.
    pub participant: &'a str,
    /// The first round that it shall hold for.
    pub from_round: u64,
    /// The root of its data set.
    pub root: DatasetRoot,
    /// The contract version that it names.
    pub wmcp_version: &'a str,
    /// Digest of the whole document, which says more than the root: how many episodes there are, for one.
    pub digest: BlobDigest,
}

/// Decides whether a commitment may begin to hold at a round.
///
/// `head` is the newest round of the run, whose training is under way; `held` is the root and the document of what the
/// participant has already committed to for exactly this round.
///
/// # Errors
/// `config_invalid`, `commitment_mismatch`, `wmcp_contract_violation` or `provenance_failed`.
pub fn check_commitment(
    pins: &Pins,
    commitment: &Commitment<'_>,
    head: Option<u64>,
    held: Option<(DatasetRoot, BlobDigest)>,
) -> Result<Step, DomainError> {
    let Commitment { participant, from_round, root, wmcp_version, digest } = *commitment;
    if !pins.participants.is_empty() && !pins.participants.iter().any(|declared| declared == participant) {
        return Err(DomainError::new(ErrorCode::CommitmentMismatch, "this is not one of the run's participants")
            .field("participant_id", participant)
            .remedy("Use the name under which the participant was declared."));
    }
    if wmcp_version != pins.wmcp_version {
        return Err(DomainError::new(
            ErrorCode::WmcpContractViolation,
            "the commitment has another contract version than the run is pinned to",
        )
        .field("wmcp_version", &*pins.wmcp_version)
        .field("field", "wmcp_version")
        .invariant("INV-WMCP"));
    }
    match held {
        Some((_, held)) if held == digest => return Ok(Step::Replay),
        Some((held, _)) => {
            let message = if held == root {
                "the participant has committed to this data set for this round with another document"
            } else {
                "the participant has committed to another data set for this round"
            };
            return Err(DomainError::new(ErrorCode::CommitmentMismatch, message)
                .field("participant_id", participant)
                .field("round", from_round)
                .field("expected_root", held.to_string())
                .field("got_root", root.to_string())
                .remedy("Let the new commitment hold from a later round.")
                .invariant("INV-COMMIT-BINDING"));
        }
        None => {}
    }
    let open = head.unwrap_or(0);
    if from_round < open {
        return Err(DomainError::new(
            ErrorCode::ProvenanceFailed,
            "a commitment cannot hold for a round that is closed already",
        )
        .field("cause", "round_closed")
        .field("open_round", open)
        .remedy("Let it hold from the open round or a later one."));
    }
    if from_round > LAST_ROUND {
        return Err(DomainError::new(ErrorCode::ProvenanceFailed, "the round index is above 2^31 - 1")
            .field("cause", "round_too_large"));
    }
    Ok(Step::Advance)
}

/// Decides whether a round can be aborted: only the one whose training is under way.
///
/// # Errors
/// `round_failed`.
pub fn check_abort(tip: Option<&Tip>, round: u64) -> Result<(), DomainError> {
    if tip.is_some_and(|tip| tip.round == round) {
        return Ok(());
    }
    let standing = Standing { tip: tip.cloned(), ..Standing::default() };
    let message = "only the round that is open can be aborted: the one with the index of the head";
    Err(refuse(ErrorCode::RoundFailed, "round_not_open", message, &standing).field("round", round))
}
