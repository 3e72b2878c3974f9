//! The lines of a run's ledger.

use super::artifact::{count, signed};
use super::backend::{MetaStore, read};
use super::error::StoreError;
use super::sql;
use crate::core::run::Name;

/// A line of a ledger, each column as it is: whether they agree is for an audit to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
    /// The round t.
    pub round_index: u64,
    /// The record's hash.
    pub record_hash: String,
    /// The hash of the record before.
    pub prev_record_hash: Option<String>,
    /// H1 of the checkpoint with round index t + 1.
    pub global_model_hash: String,
    /// The line without its end.
    pub line: String,
}

impl MetaStore {
    /// Lines from a round on, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn ledger_page(&self, run: &Name, from: u64, limit: u32) -> Result<Vec<LedgerRow>, StoreError> {
        let rows: Vec<(i64, String, Option<String>, String, String)> =
            read!(self, |connection| sqlx::query_as(sql::LEDGER_LINES)
                .bind(run.as_str())
                .bind(signed(from))
                .bind(i64::from(limit))
                .fetch_all(&mut *connection)
                .await?);
        rows.into_iter()
            .map(|(round, record_hash, prev_record_hash, global_model_hash, line)| {
                let round_index = count(round, "ledger_records", "round_index")?;
                Ok(LedgerRow { round_index, record_hash, prev_record_hash, global_model_hash, line })
            })
            .collect()
    }
}
