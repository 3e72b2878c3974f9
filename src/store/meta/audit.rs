//! Records of what must never be swallowed, and what an audit reads.
//!
//! An audit reads columns as they are: that one cannot be what it must be is a finding, not a failure of the audit.

use super::artifact::signed;
use super::backend::{MetaStore, read, snapshot, write};
use super::error::StoreError;
use super::sql;
use crate::core::run::Name;

/// A round beside the artifact that it names.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "the columns of rounds, and with `own` those of artifacts")]
pub struct AuditRow {
    pub round_index: i64,
    pub content_hash: String,
    pub parent_hash: Option<String>,
    pub header_digest: String,
    pub theta_hash: Option<String>,
    pub phi_hash: Option<String>,
    pub structure: String,
    pub schema_version: i64,
    pub size: i64,
    pub attempt: i64,
    pub committed_at: i64,
    pub header: Option<Vec<u8>>,
    pub own_digest: Option<String>,
    pub own_round: Option<i64>,
    pub own_parent: Option<String>,
    pub own_size: Option<i64>,
    pub own_config: Option<String>,
    pub own_schema: Option<i64>,
    pub own_tensors: Option<i64>,
}

/// A file of a round's artifact, beside its blob.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "the columns of artifact_files and blobs")]
pub struct AuditFileRow {
    pub round_index: i64,
    pub name: String,
    pub digest: String,
    pub blob_key: Option<String>,
    pub size: Option<i64>,
    pub damaged_at: Option<i64>,
}

/// A group of a round's artifact.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "the columns of artifact_groups")]
pub struct AuditGroupRow {
    pub round_index: i64,
    pub name: String,
    pub group_hash: String,
    pub size: i64,
    pub tensor_count: i64,
}

/// Some rounds with everything that belongs to them.
#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    /// The rounds, oldest first.
    pub rounds: Vec<AuditRow>,
    /// Their files, in the same order.
    pub files: Vec<AuditFileRow>,
    /// Their groups, in the same order.
    pub groups: Vec<AuditGroupRow>,
}

/// A document with its bytes, or with the blob that holds them.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "the columns of documents and blobs")]
pub struct AuditDocument {
    pub seq: i64,
    pub kind: String,
    pub digest: String,
    pub schema_version: i64,
    pub size: i64,
    pub summary: String,
    pub body: Option<Vec<u8>>,
    pub blob_key: Option<String>,
    pub blob_size: Option<i64>,
    pub damaged_at: Option<i64>,
    /// Whether there is news at its place.
    pub told: bool,
}

/// A piece of news beside the rows that it tells of.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "the columns of events, aborts and documents")]
pub struct AuditEvent {
    pub event_seq: i64,
    pub kind: String,
    pub at: i64,
    pub data: String,
    pub abort_round: Option<i64>,
    pub abort_attempt: Option<i64>,
    pub abort_reason: Option<String>,
    pub abort_detail: Option<String>,
    pub abort_at: Option<i64>,
    pub document_kind: Option<String>,
    pub document_digest: Option<String>,
    pub document_at: Option<i64>,
}

impl MetaStore {
    /// Appends an audit record; `at` is in microseconds since 1970.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record(&self, at: i64, code: &str, subject: &str, detail: &str) -> Result<(), StoreError> {
        write!(self, |tx| {
            sqlx::query(sql::INSERT_AUDIT).bind(at).bind(code).bind(subject).bind(detail).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(())
        })
    }

    /// Rounds from an index on, with their files and groups.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn audit_page(&self, run: &Name, from: i64, limit: u32) -> Result<AuditPage, StoreError> {
        snapshot!(self, |tx| {
            let rounds: Vec<AuditRow> = sqlx::query_as(sql::ROUNDS_TO_AUDIT)
                .bind(run.as_str())
                .bind(from)
                .bind(i64::from(limit))
                .fetch_all(&mut *tx)
                .await?;
            let (Some(first), Some(last)) = (rounds.first(), rounds.last()) else { return Ok(AuditPage::default()) };
            let span = (first.round_index, last.round_index);
            let files = sqlx::query_as(sql::FILES_TO_AUDIT)
                .bind(run.as_str())
                .bind(span.0)
                .bind(span.1)
                .fetch_all(&mut *tx)
                .await?;
            let groups = sqlx::query_as(sql::GROUPS_TO_AUDIT)
                .bind(run.as_str())
                .bind(span.0)
                .bind(span.1)
                .fetch_all(&mut *tx)
                .await?;
            Ok(AuditPage { rounds, files, groups })
        })
    }

    /// How often each round was aborted, up to an event.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn aborts_by_round(&self, run: &Name, newest: u64) -> Result<Vec<(i64, i64)>, StoreError> {
        Ok(read!(self, |connection| sqlx::query_as(sql::ABORTS_BY_ROUND)
            .bind(run.as_str())
            .bind(signed(newest))
            .fetch_all(&mut *connection)
            .await?))
    }

    /// News after an event, with what it tells of.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn events_to_audit(&self, run: &Name, after: i64, limit: u32) -> Result<Vec<AuditEvent>, StoreError> {
        Ok(read!(self, |connection| sqlx::query_as(sql::EVENTS_TO_AUDIT)
            .bind(run.as_str())
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(&mut *connection)
            .await?))
    }

    /// Documents after a place, with their bytes.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn documents_to_audit(
        &self,
        run: &Name,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditDocument>, StoreError> {
        Ok(read!(self, |connection| sqlx::query_as(sql::DOCUMENTS_TO_AUDIT)
            .bind(run.as_str())
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(&mut *connection)
            .await?))
    }
}
