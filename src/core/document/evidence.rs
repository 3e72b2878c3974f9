//! Bundles: lists of references to what a claim or a release rests on (Lensemble documentation D09 section 5.4).

use crate::core::error::DomainError;
use crate::core::json::Fields;

/// A list of references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {}

impl Bundle {
    pub(super) fn read_evidence(fields: &mut Fields) -> Result<Self, DomainError> {
        Err(fields.refuse("x", "is not built"))
    }

    pub(super) fn read_release(fields: &mut Fields) -> Result<Self, DomainError> {
        Err(fields.refuse("x", "is not built"))
    }
}
