//! Reports that are bound to a checkpoint or a round (Lensemble data model section 13, RFC-0015).

use crate::core::digest::{ContentHash, ProbeHash};
use crate::core::error::DomainError;
use crate::core::json::Fields;

/// How well a checkpoint does.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalReport {
    /// H1 of the checkpoint.
    pub checkpoint_hash: ContentHash,
}

/// How far the participants' frames have drifted apart.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameDriftReport {
    /// The round.
    pub round_index: u64,
    /// The probe it was measured with.
    pub probe_hash: ProbeHash,
}

/// The same as a line of the metrics stream.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameDriftRecord {
    /// The round.
    pub round_index: u64,
    /// The probe it was measured with.
    pub probe_hash: ProbeHash,
}

/// What somebody claims of an alignment.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignmentClaim {
    /// The round.
    pub round_index: u64,
    /// The probe it was measured with.
    pub probe_hash: ProbeHash,
}

/// What a verifier has recomputed of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignmentRecomputation {
    /// The claim as recomputed.
    pub recomputed: AlignmentClaim,
    /// Whether the published claim is the same.
    pub matches_expected: bool,
}

macro_rules! stub { ($($t:ident)*) => {$(impl $t {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> { Err(fields.refuse("x", "is not built")) }
})*} }
stub!(EvalReport FrameDriftReport FrameDriftRecord AlignmentClaim AlignmentRecomputation);
