//! What happens to a run besides its rounds: aborts, events, contradictions.

use super::artifact::{corrupt, count, signed};
use super::backend::{Lock, MetaStore, read, write};
use super::commit::other_request;
use super::error::StoreError;
use super::run::Runs;
use super::sql;
use crate::core::digest::Sha256Hash;
use crate::core::error::DomainError;
use crate::core::lineage::check_abort;
use crate::core::run::Name;

/// An abort of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortRow {
    /// The event that told of it.
    pub event_seq: u64,
    /// The round t whose training was given up.
    pub round_index: u64,
    /// Which attempt it was, from 1.
    pub attempt: u64,
    /// Why, as one of the error codes.
    pub reason_code: String,
    /// Why, in words.
    pub detail: Option<String>,
    /// Microseconds since 1970.
    pub at: i64,
}

/// A piece of news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Its number within the run, from 1.
    pub seq: u64,
    /// What happened.
    pub kind: String,
    /// Microseconds since 1970.
    pub at: i64,
    /// JSON.
    pub data: String,
}

/// A contradiction that a run was confronted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingRow {
    /// Microseconds since 1970.
    pub at: i64,
    /// The error code.
    pub code: String,
    /// The round.
    pub round_index: u64,
    /// What the run holds.
    pub expected: Option<String>,
    /// What it was confronted with.
    pub found: Option<String>,
}

/// An abort that is to be written.
#[derive(Clone, Debug)]
pub struct NewAbort<'a> {
    /// The round t.
    pub round_index: u64,
    /// Why, as one of the error codes.
    pub reason_code: &'a str,
    /// Why, in words.
    pub detail: Option<&'a str>,
    /// The name under which the caller may ask again, and the digest of what it asks.
    pub key: Option<(&'a str, Sha256Hash)>,
    /// Microseconds since 1970.
    pub at: i64,
}

/// What became of an abort.
#[derive(Debug)]
pub enum Aborting {
    /// It is written, or was before.
    Done(AbortRow),
    /// There is nothing to abort.
    Refused(DomainError),
    /// There is no such run.
    NoRun,
}

/// The columns of [`sql::ABORT`].
type AbortColumns = (i64, i64, i64, String, Option<String>, i64);

/// The columns of [`sql::FINDINGS`].
type FindingColumns = (i64, String, i64, Option<String>, Option<String>);

fn abort((seq, round, attempt, reason_code, detail, at): AbortColumns) -> Result<AbortRow, StoreError> {
    Ok(AbortRow {
        event_seq: count(seq, "aborts", "event_seq")?,
        round_index: count(round, "aborts", "round_index")?,
        attempt: count(attempt, "aborts", "attempt")?,
        reason_code,
        detail,
        at,
    })
}

impl MetaStore {
    /// Aborts the round that is open; `data` makes the JSON of the news.
    ///
    /// # Errors
    /// When the database fails; then nothing has happened.
    pub async fn abort_round(
        &self,
        name: &Name,
        new: &NewAbort<'_>,
        data: impl Fn(&AbortRow) -> String + Send + Sync,
    ) -> Result<Aborting, StoreError> {
        write!(self, |tx| {
            tx.lock(sql::LOCK_RUN, name.as_str()).await?;
            // Keys of aborts and of commits are different names; no key has a line end in it.
            let key = new.key.map(|(key, digest)| (format!("abort\n{key}"), digest.to_string()));
            if let Some((key, digest)) = &key {
                let before: Option<(String, i64)> =
                    sqlx::query_as(sql::IDEMPOTENCY_KEY).bind(name.as_str()).bind(key).fetch_optional(&mut *tx).await?;
                if let Some((asked, seq)) = before {
                    if asked != *digest {
                        return Ok(Aborting::Refused(other_request()));
                    }
                    let row: AbortColumns =
                        sqlx::query_as(sql::ABORT).bind(name.as_str()).bind(seq).fetch_one(&mut *tx).await?;
                    return Ok(Aborting::Done(abort(row)?));
                }
            }
            let Some(run) = tx.find_run(name).await? else { return Ok(Aborting::NoRun) };
            if let Err(error) = check_abort(run.tip.as_ref(), new.round_index) {
                return Ok(Aborting::Refused(error));
            }
            let (seq, attempt): (i64, i64) =
                sqlx::query_as(sql::COUNT_ABORT).bind(name.as_str()).fetch_one(&mut *tx).await?;
            let row = AbortRow {
                event_seq: count(seq, "runs", "event_seq")?,
                round_index: new.round_index,
                attempt: count(attempt, "runs", "aborted")?,
                reason_code: new.reason_code.to_owned(),
                detail: new.detail.map(str::to_owned),
                at: new.at,
            };
            sqlx::query(sql::INSERT_ABORT)
                .bind(name.as_str())
                .bind(seq)
                .bind(signed(row.round_index))
                .bind(attempt)
                .bind(&row.reason_code)
                .bind(&row.detail)
                .bind(row.at)
                .execute(&mut *tx)
                .await?;
            sqlx::query(sql::INSERT_EVENT)
                .bind(name.as_str())
                .bind(seq)
                .bind("round.aborted")
                .bind(row.at)
                .bind(data(&row))
                .execute(&mut *tx)
                .await?;
            if let Some((key, digest)) = key {
                // An abort is found again by its event.
                sqlx::query(sql::INSERT_IDEMPOTENCY_KEY)
                    .bind(name.as_str())
                    .bind(key)
                    .bind(digest)
                    .bind(seq)
                    .bind(row.at)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await?;
            Ok(Aborting::Done(row))
        })
    }

    /// Aborts of a run below an event, newest first.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn aborts(&self, name: &Name, below: u64, limit: u32) -> Result<Vec<AbortRow>, StoreError> {
        let rows: Vec<AbortColumns> = read!(self, |connection| sqlx::query_as(sql::ABORTS)
            .bind(name.as_str())
            .bind(signed(below))
            .bind(i64::from(limit))
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter().map(abort).collect()
    }

    /// News of a run after an event, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn events(&self, name: &Name, after: u64, limit: u32) -> Result<Vec<EventRow>, StoreError> {
        let rows: Vec<(i64, String, i64, String)> = read!(self, |connection| sqlx::query_as(sql::EVENTS)
            .bind(name.as_str())
            .bind(signed(after))
            .bind(i64::from(limit))
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter()
            .map(|(seq, kind, at, data)| Ok(EventRow { seq: count(seq, "events", "event_seq")?, kind, at, data }))
            .collect()
    }

    /// Keeps a contradiction; the same one is kept once.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn add_finding(&self, name: &Name, finding: &FindingRow) -> Result<(), StoreError> {
        write!(self, |tx| {
            sqlx::query(sql::INSERT_FINDING)
                .bind(name.as_str())
                .bind(finding.at)
                .bind(&finding.code)
                .bind(signed(finding.round_index))
                .bind(&finding.expected)
                .bind(&finding.found)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(())
        })
    }

    /// Contradictions of a run.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn findings(&self, name: &Name) -> Result<Vec<FindingRow>, StoreError> {
        let rows: Vec<FindingColumns> = read!(self, |connection| sqlx::query_as(sql::FINDINGS)
            .bind(name.as_str())
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter()
            .map(|(at, code, round, expected, found)| {
                let round_index = u64::try_from(round).map_err(|_| corrupt("findings", "round_index"))?;
                Ok(FindingRow { at, code, round_index, expected, found })
            })
            .collect()
    }
}
