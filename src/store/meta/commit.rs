//! The one transaction that makes a round: head, round, ledger record and news, or nothing.

use std::collections::BTreeMap;

use super::artifact::{corrupt, count, signed};
use super::backend::{Lock, MetaStore, both, read, write};
use super::error::StoreError;
use super::run::{RoundRow, RunRow, Runs};
use super::sql;
use crate::core::digest::{BlobDigest, ContentHash, DatasetRoot, GroupHash, RecordHash, Sha256Hash};
use crate::core::document::contribution::ContributionRecord;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::lineage::{Candidate, Committed, Standing, Step, check_record, place};
use crate::core::run::{Name, Pins};
use crate::store::crash::crash_point;

/// A checkpoint that shall become the next round of a run.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The checkpoint.
    pub candidate: Candidate,
    /// Digest of its header as it is stored.
    pub header_digest: BlobDigest,
    /// H2 of the encoder.
    pub theta: Option<GroupHash>,
    /// H2 of the predictor.
    pub phi: Option<GroupHash>,
    /// Bytes of the stored files.
    pub size: u64,
    /// The record of the round before, and the line it makes in the ledger.
    pub record: Option<(ContributionRecord, String)>,
    /// The name under which the caller may ask again, and the digest of what it asks.
    pub key: Option<(String, Sha256Hash)>,
    /// Microseconds since 1970.
    pub at: i64,
}

/// The places between two steps of a commit, in order; at the last two the round is committed. A test kills the program
/// at each.
pub const STEPS: &[&str] = &[
    "commit.begun",
    "commit.placed",
    "commit.round",
    "commit.record",
    "commit.news",
    "commit.head",
    "commit.key",
    "commit.done",
    "commit.answer",
];

/// A piece of news: its kind and its JSON.
pub type News = (&'static str, String);

/// What became of a commit.
#[derive(Debug)]
pub enum Committing {
    /// The round is committed.
    Done {
        /// The round.
        round: Box<RoundRow>,
        /// False when it was committed before.
        created: bool,
    },
    /// It may not be committed.
    Refused(DomainError),
    /// There is no such run.
    NoRun,
}

impl MetaStore {
    /// Commits a round. The rules decide inside the transaction, on what is true there.
    ///
    /// # Errors
    /// When the database fails; then nothing has happened.
    pub async fn commit_round(
        &self,
        name: &Name,
        proposal: &Proposal,
        news: impl Fn(&Pins, &RoundRow) -> Vec<News> + Send + Sync,
    ) -> Result<Committing, StoreError> {
        write!(self, |tx| {
            tx.lock(sql::LOCK_RUN, name.as_str()).await?;
            crash_point("commit.begun");
            if let Some((key, digest)) = &proposal.key {
                match tx.remembered(name, key).await? {
                    Some((asked, round)) if asked == *digest => {
                        let round =
                            tx.find_round(name, round).await?.ok_or_else(|| corrupt("rounds", "round_index"))?;
                        return Ok(Committing::Done { round: Box::new(round), created: false });
                    }
                    Some(_) => return Ok(Committing::Refused(other_request())),
                    None => {}
                }
            }
            let Some(run) = tx.find_run(name).await? else { return Ok(Committing::NoRun) };
            let candidate = &proposal.candidate;
            let standing = tx.standing(&run, candidate).await?;
            match place(&run.pins, candidate, &standing) {
                Err(error) => return Ok(Committing::Refused(error)),
                Ok(Step::Replay) => {
                    let replayed = tx.replay(name, proposal).await?;
                    tx.commit().await?;
                    return Ok(replayed);
                }
                Ok(Step::Advance) => {}
            }
            if let Some((record, _)) = &proposal.record {
                let roots = tx.in_force(name, record.round_index).await?;
                if let Err(error) = check_record(&run.pins, record, candidate, run.ledger, &roots) {
                    return Ok(Committing::Refused(error));
                }
            }
            crash_point("commit.placed");
            let round = tx.insert_round(&run, proposal).await?;
            crash_point("commit.record");
            let seq = tx.announce(&run, news(&run.pins, &round), proposal.at).await?;
            crash_point("commit.news");
            tx.advance(&run, proposal, seq).await?;
            crash_point("commit.head");
            tx.remember(name, proposal).await?;
            crash_point("commit.key");
            tx.commit().await?;
            crash_point("commit.done");
            Ok(Committing::Done { round: Box::new(round), created: true })
        })
    }

    /// What each participant has committed to for a round.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn roots_in_force(&self, name: &Name, round: u64) -> Result<BTreeMap<String, DatasetRoot>, StoreError> {
        read!(self, |connection| connection.in_force(name, round).await)
    }
}

/// One key means one request.
pub(super) fn other_request() -> DomainError {
    DomainError::new(ErrorCode::RegistryConflict, "this Idempotency-Key was used for another request")
        .field("key", "idempotency-key")
        .remedy("Use a new key for each commit or abort, and the same key only to repeat one.")
}

both! {
    trait Commits {
        /// What a key was used for.
        async fn remembered(&mut self, name: &Name, key: &str) -> Result<Option<(Sha256Hash, u64)>, StoreError> {
            const TABLE: &str = "idempotency_keys";
            let row: Option<(String, i64)> =
                sqlx::query_as(sql::IDEMPOTENCY_KEY).bind(name.as_str()).bind(key).fetch_optional(&mut *self).await?;
            row.map(|(digest, round)| {
                Ok((digest.parse().map_err(|_| corrupt(TABLE, "request_digest"))?, count(round, TABLE, "round_index")?))
            })
            .transpose()
        }

        /// Keeps what a key was used for.
        async fn remember(&mut self, name: &Name, proposal: &Proposal) -> Result<(), StoreError> {
            if let Some((key, digest)) = &proposal.key {
                sqlx::query(sql::INSERT_IDEMPOTENCY_KEY)
                    .bind(name.as_str())
                    .bind(key)
                    .bind(digest.to_string())
                    .bind(signed(proposal.candidate.round_index))
                    .bind(proposal.at)
                    .execute(&mut *self)
                    .await?;
            }
            Ok(())
        }

        /// The same checkpoint again: a success, as long as the record is the same as well.
        async fn replay(&mut self, name: &Name, proposal: &Proposal) -> Result<Committing, StoreError> {
            let round = self
                .find_round(name, proposal.candidate.round_index)
                .await?
                .ok_or_else(|| corrupt("rounds", "round_index"))?;
            if let Some((record, _)) = &proposal.record
                && round.record_hash != Some(record.hash())
            {
                let told = "this round was committed with another record";
                let error = DomainError::new(ErrorCode::ProvenanceFailed, told)
                    .field("cause", "other_record")
                    .field("expected", round.record_hash.map(|hash| hash.to_string()))
                    .field("got", record.hash().to_string());
                return Ok(Committing::Refused(error));
            }
            self.remember(name, proposal).await?;
            Ok(Committing::Done { round: Box::new(round), created: false })
        }

        /// What the run holds where the candidate wants to be.
        async fn standing(&mut self, run: &RunRow, candidate: &Candidate) -> Result<Standing, StoreError> {
            let rows: Vec<(i64, String, Option<String>)> = sqlx::query_as(sql::STANDING)
                .bind(run.pins.run.as_str())
                .bind(signed(candidate.round_index))
                .bind(candidate.parent_hash.map(|parent| parent.to_string()))
                .fetch_all(&mut *self)
                .await?;
            let mut standing = Standing { tip: run.tip.clone(), same_round: None, sibling: None };
            for (index, hash, parent) in rows {
                let parent: Option<ContentHash> =
                    parent.map(|parent| parent.parse()).transpose().map_err(|_| corrupt("rounds", "parent_hash"))?;
                let committed = Committed {
                    round_index: count(index, "rounds", "round_index")?,
                    content_hash: hash.parse().map_err(|_| corrupt("rounds", "content_hash"))?,
                    parent_hash: parent,
                };
                if committed.round_index == candidate.round_index {
                    standing.same_round = Some(committed);
                }
                if parent.is_some() && parent == candidate.parent_hash {
                    standing.sibling = Some(committed);
                }
            }
            Ok(standing)
        }

        /// What each participant has committed to for a round.
        async fn in_force(&mut self, name: &Name, round: u64) -> Result<BTreeMap<String, DatasetRoot>, StoreError> {
            let rows: Vec<(String, String)> = sqlx::query_as(sql::COMMITMENTS_IN_FORCE)
                .bind(name.as_str())
                .bind(signed(round))
                .fetch_all(&mut *self)
                .await?;
            rows.into_iter()
                .map(|(participant, root)| {
                    Ok((participant, root.parse().map_err(|_| corrupt("commitments", "merkle_root"))?))
                })
                .collect()
        }

        /// Writes the round and its ledger record.
        async fn insert_round(&mut self, run: &RunRow, proposal: &Proposal) -> Result<RoundRow, StoreError> {
            let candidate = &proposal.candidate;
            let name = run.pins.run.as_str();
            let attempt = run.aborted + 1;
            sqlx::query(sql::INSERT_ROUND)
                .bind(name)
                .bind(signed(candidate.round_index))
                .bind(candidate.content_hash.to_string())
                .bind(candidate.parent_hash.map(|parent| parent.to_string()))
                .bind(proposal.header_digest.to_string())
                .bind(candidate.structure.to_string())
                .bind(i64::from(candidate.schema_version))
                .bind(proposal.theta.map(|hash| hash.to_string()))
                .bind(proposal.phi.map(|hash| hash.to_string()))
                .bind(signed(proposal.size))
                .bind(signed(attempt))
                .bind(proposal.at)
                .execute(&mut *self)
                .await?;
            crash_point("commit.round");
            let mut record_hash = None;
            if let Some((record, line)) = &proposal.record {
                let hash = record.hash();
                sqlx::query(sql::INSERT_LEDGER_RECORD)
                    .bind(name)
                    .bind(signed(record.round_index))
                    .bind(hash.to_string())
                    .bind(record.prev_record_hash.map(|hash| hash.to_string()))
                    .bind(record.global_model_hash.to_string())
                    .bind(line)
                    .execute(&mut *self)
                    .await?;
                record_hash = Some(hash);
            }
            Ok(RoundRow {
                round_index: candidate.round_index,
                content_hash: candidate.content_hash,
                parent_hash: candidate.parent_hash,
                theta: proposal.theta,
                phi: proposal.phi,
                size: proposal.size,
                attempt,
                committed_at: proposal.at,
                record_hash,
            })
        }

        /// Writes the news; the number of the last.
        async fn announce(&mut self, run: &RunRow, news: Vec<News>, at: i64) -> Result<u64, StoreError> {
            let mut seq = run.event_seq;
            for (kind, data) in news {
                seq += 1;
                sqlx::query(sql::INSERT_EVENT)
                    .bind(run.pins.run.as_str())
                    .bind(signed(seq))
                    .bind(kind)
                    .bind(at)
                    .bind(data)
                    .execute(&mut *self)
                    .await?;
            }
            Ok(seq)
        }

        /// Moves the head.
        async fn advance(&mut self, run: &RunRow, proposal: &Proposal, seq: u64) -> Result<(), StoreError> {
            let (ledger_round, tail, ledger_count): (Option<u64>, Option<RecordHash>, u64) =
                if let Some((record, _)) = &proposal.record {
                    (Some(record.round_index), Some(record.hash()), run.ledger_count + 1)
                } else {
                    let tail = run.ledger.as_ref();
                    (tail.map(|tail| tail.round_index), tail.map(|tail| tail.record_hash), run.ledger_count)
                };
            let moved = sqlx::query(sql::ADVANCE_RUN)
                .bind(run.pins.run.as_str())
                .bind(run.tip.as_ref().map_or_else(String::new, |tip| tip.content_hash.to_string()))
                .bind(signed(proposal.candidate.round_index))
                .bind(proposal.candidate.content_hash.to_string())
                .bind(ledger_round.map(signed))
                .bind(tail.map(|tail| tail.to_string()))
                .bind(signed(ledger_count))
                .bind(signed(seq))
                .execute(&mut *self)
                .await?;
            // The write lock is held, so the head cannot have moved; if it has, nothing may be written.
            if moved.rows_affected() == 1 { Ok(()) } else { Err(corrupt("runs", "head_hash")) }
        }
    }
}
