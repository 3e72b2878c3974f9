//! RunManifest version 1 (Lensemble RFC-0009 section 6): what a run was started with.

use crate::core::error::DomainError;
use crate::core::json::Fields;

/// What a run was started with.
#[derive(Clone, Debug, PartialEq)]
pub struct RunManifest {}

impl RunManifest {
    pub(super) fn read(_fields: &mut Fields) -> Result<Self, DomainError> {
        Ok(Self {})
    }
}
