//! How much there is of everything.

use super::backend::{MetaStore, read};
use super::error::StoreError;
use super::sql;

/// Counts and sums over whole tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Artifacts.
    pub artifacts: i64,
    /// Bytes of all artifacts, shared files counted as often as they are shared.
    pub artifact_bytes: i64,
    /// Runs.
    pub runs: i64,
    /// Sessions that can be continued.
    pub open_sessions: i64,
    /// Bytes of all files that something refers to.
    pub stored_bytes: i64,
    /// Bytes of files of open sessions.
    pub staged_bytes: i64,
}

impl MetaStore {
    /// Counts everything.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn stock(&self) -> Result<Stock, StoreError> {
        let row: (i64, i64, i64, i64, i64, i64) =
            read!(self, |connection| sqlx::query_as(sql::STOCK).fetch_one(&mut *connection).await?);
        let (artifacts, artifact_bytes, runs, open_sessions, stored_bytes, staged_bytes) = row;
        Ok(Stock { artifacts, artifact_bytes, runs, open_sessions, stored_bytes, staged_bytes })
    }
}
