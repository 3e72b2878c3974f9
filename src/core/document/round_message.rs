//! What the coordinator says when a round opens and closes (Lensemble data model section 7, RFC-0013 section 5).

use crate::core::digest::{ContentHash, GroupHash, ProbeHash};
use crate::core::error::DomainError;
use crate::core::json::Fields;

/// The opening of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundOpen {
    /// The round.
    pub round_index: u64,
    /// H2 of the encoder that the round begins with.
    pub theta_ref_hash: GroupHash,
    /// H2 of the predictor that the round begins with.
    pub phi_ref_hash: GroupHash,
    /// Seed of the round's sketch.
    pub sketch_seed: u64,
    /// The probe; `None` for the hash of zeros, which means that there is none.
    pub probe_hash: Option<ProbeHash>,
}

/// The closing of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundClose {
    /// The round t.
    pub round_index: u64,
    /// H1 of the checkpoint with round index t + 1.
    pub global_model_hash: ContentHash,
}

macro_rules! stub { ($($t:ident)*) => {$(impl $t {
    pub(super) fn read(fields: &mut Fields, _version: u32) -> Result<Self, DomainError> { Err(fields.refuse("x", "is not built")) }
})*} }
stub!(RoundOpen RoundClose);
