//! What the coordinator says when a round opens and closes (Lensemble data model section 7, RFC-0013 section 5).
//!
//! Versions 1 and 2 of the messages differ in other messages than these two.

use super::residency::free_text;
use crate::core::digest::{ContentHash, GroupHash, ProbeHash, Sha256Hash};
use crate::core::error::DomainError;
use crate::core::json::Fields;

/// Most bytes of a locator.
const MAX_LOCATOR: usize = 4096;

/// The opening of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundOpen {
    /// The round.
    pub round_index: u64,
    /// H2 of the encoder that the round begins with.
    pub theta_ref_hash: GroupHash,
    /// Where the coordinator believes the encoder to be; a hint without a fixed form.
    pub theta_ref_locator: String,
    /// H2 of the predictor that the round begins with.
    pub phi_ref_hash: GroupHash,
    /// Where the coordinator believes the predictor to be.
    pub phi_ref_locator: String,
    /// Seed of the round's sketch.
    pub sketch_seed: u64,
    /// The probe; `None` for the hash of zeros, which means that there is none.
    pub probe_hash: Option<ProbeHash>,
    /// Hashes of single landmarks; Lensemble sends none.
    pub landmark_hashes: Vec<Sha256Hash>,
    /// Local steps of the round; Lensemble sends 0.
    pub inner_horizon: u64,
}

impl RoundOpen {
    pub(super) fn read(fields: &mut Fields, _version: u32) -> Result<Self, DomainError> {
        discriminator(fields, "round_open")?;
        Ok(Self {
            round_index: fields.count("round_index")?,
            theta_ref_hash: fields.digest("theta_ref_hash")?,
            theta_ref_locator: free_text(fields, "theta_ref_locator", MAX_LOCATOR)?,
            phi_ref_hash: fields.digest("phi_ref_hash")?,
            phi_ref_locator: free_text(fields, "phi_ref_locator", MAX_LOCATOR)?,
            sketch_seed: fields.count("sketch_seed")?,
            probe_hash: Some(fields.digest("probe_hash")?).filter(|hash| *hash != ProbeHash::NONE),
            landmark_hashes: fields
                .strings("landmark_hashes")?
                .iter()
                .map(|text| {
                    text.parse()
                        .map_err(|_| fields.refuse("landmark_hashes", "must hold 64 lowercase hexadecimal digits each"))
                })
                .collect::<Result<_, _>>()?,
            inner_horizon: fields.count("inner_horizon")?,
        })
    }
}

/// The closing of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundClose {
    /// The round t.
    pub round_index: u64,
    /// H1 of the checkpoint with round index t + 1.
    pub global_model_hash: ContentHash,
}

impl RoundClose {
    pub(super) fn read(fields: &mut Fields, _version: u32) -> Result<Self, DomainError> {
        discriminator(fields, "round_close")?;
        Ok(Self { round_index: fields.count("round_index")?, global_model_hash: fields.digest("global_model_hash")? })
    }

    /// The message in its newest version, compact and in the order of Lensemble's writer.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!(
            r#"{{"schema_version":2,"kind":"round_close","round_index":{},"global_model_hash":"{}"}}"#,
            self.round_index, self.global_model_hash
        )
    }
}

/// The field by which Lensemble tells its messages apart.
fn discriminator(fields: &mut Fields, kind: &str) -> Result<(), DomainError> {
    if fields.string("kind")? == kind { Ok(()) } else { Err(fields.refuse("kind", &format!("must be {kind}"))) }
}
