//! ContributionRecord version 1 and the ledger they form (Lensemble data model section 13.3, RFC-0014 section 7).

use std::collections::BTreeMap;

use crate::core::digest::{ContentHash, DatasetRoot, RecordHash};
use crate::core::error::DomainError;

/// Who contributed to a round, with which data, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContributionRecord {
    /// The round t that was trained.
    pub round_index: u64,
    /// Who contributed, sorted.
    pub participants: Vec<String>,
    /// The data-set root of each.
    pub dataset_roots: BTreeMap<String, DatasetRoot>,
    /// H1 of the checkpoint that the round made: the one with round index t + 1.
    pub global_model_hash: ContentHash,
    /// Hash of the record before; `None` in the first.
    pub prev_record_hash: Option<RecordHash>,
}

impl ContributionRecord {
    /// Reads one record.
    ///
    /// # Errors
    /// `schema_version_mismatch` or `merkle_verify_failed`.
    pub fn parse(_text: &[u8]) -> Result<Self, DomainError> {
        Err(DomainError::invalid("not built"))
    }

    /// The hash that the next record names.
    #[must_use]
    pub fn hash(&self) -> RecordHash {
        RecordHash::from_bytes([0; 32])
    }

    /// The record as one line of a ledger file, in the spelling of Lensemble's writer, without the line's end. What
    /// Python takes for the end of a line is escaped, so that its reader finds the lines that there are.
    #[must_use]
    pub fn line(&self) -> String {
        String::new()
    }
}

/// The line that stands in the exported ledger for a record that came as `text`: the same bytes where they are one
/// line for every reader, else [`ContributionRecord::line`].
#[must_use]
pub fn ledger_line(_text: &str, record: &ContributionRecord) -> String {
    record.line()
}
