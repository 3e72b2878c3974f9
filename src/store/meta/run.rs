//! Runs: their pins, where they stand, their rounds.

use super::artifact::{corrupt, count, signed};
use super::backend::{MetaStore, both, read, snapshot, write};
use super::error::StoreError;
use super::sql;
use crate::core::digest::{ContentHash, GroupHash, RecordHash};
use crate::core::lineage::LedgerTail;
use crate::core::run::{Name, Pins, Tip, Visibility, WarmStart};

/// A run as it lies in the database.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// What never changes.
    pub pins: Pins,
    /// When it was registered, in microseconds since 1970.
    pub created_at: i64,
    /// The newest round.
    pub tip: Option<Tip>,
    /// Where the ledger ends.
    pub ledger: Option<LedgerTail>,
    /// Records in the ledger.
    pub ledger_count: u64,
    /// Aborts of the round that is open now.
    pub aborted: u64,
    /// The newest event.
    pub event_seq: u64,
}

/// A committed round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundRow {
    /// Its index.
    pub round_index: u64,
    /// H1.
    pub content_hash: ContentHash,
    /// H1 of the parent.
    pub parent_hash: Option<ContentHash>,
    /// H2 of the encoder.
    pub theta: Option<GroupHash>,
    /// H2 of the predictor.
    pub phi: Option<GroupHash>,
    /// Bytes of the stored files.
    pub size: u64,
    /// 1, and one more for each abort before it.
    pub attempt: u64,
    /// Microseconds since 1970.
    pub committed_at: i64,
    /// The ledger record that entered with it.
    pub record_hash: Option<RecordHash>,
}

/// The columns of [`sql::RUN`].
#[derive(sqlx::FromRow)]
struct RunColumns {
    run: String,
    consortium: String,
    wmcp_version: String,
    probe_hash: Option<String>,
    probe_version: Option<i64>,
    config_hash: Option<String>,
    warm_start: Option<String>,
    participants: String,
    min_participants: Option<i64>,
    visibility: String,
    created_at: i64,
    head_round: Option<i64>,
    head_hash: Option<String>,
    ledger_round: Option<i64>,
    ledger_tail: Option<String>,
    ledger_count: i64,
    aborted: i64,
    event_seq: i64,
    structure: Option<String>,
    schema_version: Option<i64>,
}

/// The columns of [`sql::ROUND`].
type RoundColumns = (i64, String, Option<String>, Option<String>, Option<String>, i64, i64, i64, Option<String>);

const RUNS: &str = "runs";
const ROUNDS: &str = "rounds";

fn parsed<T: std::str::FromStr>(text: &str, table: &'static str, column: &'static str) -> Result<T, StoreError> {
    text.parse().map_err(|_| corrupt(table, column))
}

fn maybe<T: std::str::FromStr>(
    text: Option<&String>,
    table: &'static str,
    column: &'static str,
) -> Result<Option<T>, StoreError> {
    text.map(|text| parsed(text, table, column)).transpose()
}

impl RunColumns {
    fn read(self) -> Result<RunRow, StoreError> {
        let tip = match (self.head_round, &self.head_hash) {
            (Some(round), Some(hash)) => Some(Tip {
                round: count(round, RUNS, "head_round")?,
                content_hash: parsed(hash, RUNS, "head_hash")?,
                structure: maybe(self.structure.as_ref(), ROUNDS, "structure")?
                    .ok_or_else(|| corrupt(RUNS, "head_round"))?,
                schema_version: self
                    .schema_version
                    .and_then(|version| u32::try_from(version).ok())
                    .ok_or_else(|| corrupt(ROUNDS, "schema_version"))?,
            }),
            _ => None,
        };
        let ledger = match (self.ledger_round, &self.ledger_tail) {
            (Some(round), Some(hash)) => Some(LedgerTail {
                record_hash: parsed(hash, RUNS, "ledger_tail")?,
                round_index: count(round, RUNS, "ledger_round")?,
            }),
            _ => None,
        };
        let visibility = [Visibility::Members, Visibility::Released, Visibility::Public];
        Ok(RunRow {
            pins: Pins {
                run: parsed(&self.run, RUNS, "run")?,
                consortium: parsed(&self.consortium, RUNS, "consortium")?,
                wmcp_version: self.wmcp_version,
                probe_hash: maybe(self.probe_hash.as_ref(), RUNS, "probe_hash")?,
                probe_version: self.probe_version.map(|version| count(version, RUNS, "probe_version")).transpose()?,
                config_hash: maybe(self.config_hash.as_ref(), RUNS, "config_hash")?,
                warm_start: self
                    .warm_start
                    .map(|text| WarmStart::parse(text.as_bytes()).map_err(|_| corrupt(RUNS, "warm_start")))
                    .transpose()?,
                participants: serde_json::from_str(&self.participants).map_err(|_| corrupt(RUNS, "participants"))?,
                min_participants: self
                    .min_participants
                    .map(|least| count(least, RUNS, "min_participants"))
                    .transpose()?,
                visibility: visibility
                    .into_iter()
                    .find(|known| known.as_str() == self.visibility)
                    .ok_or_else(|| corrupt(RUNS, "visibility"))?,
            },
            created_at: self.created_at,
            tip,
            ledger,
            ledger_count: count(self.ledger_count, RUNS, "ledger_count")?,
            aborted: count(self.aborted, RUNS, "aborted")?,
            event_seq: count(self.event_seq, RUNS, "event_seq")?,
        })
    }
}

fn round(row: RoundColumns) -> Result<RoundRow, StoreError> {
    let (index, hash, parent, theta, phi, size, attempt, committed_at, record) = row;
    Ok(RoundRow {
        round_index: count(index, ROUNDS, "round_index")?,
        content_hash: parsed(&hash, ROUNDS, "content_hash")?,
        parent_hash: maybe(parent.as_ref(), ROUNDS, "parent_hash")?,
        theta: maybe(theta.as_ref(), ROUNDS, "theta_hash")?,
        phi: maybe(phi.as_ref(), ROUNDS, "phi_hash")?,
        size: count(size, ROUNDS, "size")?,
        attempt: count(attempt, ROUNDS, "attempt")?,
        committed_at,
        record_hash: maybe(record.as_ref(), "ledger_records", "record_hash")?,
    })
}

both! {
    trait Runs {
        /// Reads a run.
        async fn find_run(&mut self, name: &Name) -> Result<Option<RunRow>, StoreError> {
            let row: Option<RunColumns> =
                sqlx::query_as(sql::RUN).bind(name.as_str()).fetch_optional(&mut *self).await?;
            row.map(RunColumns::read).transpose()
        }

        /// Reads a round.
        async fn find_round(&mut self, name: &Name, index: u64) -> Result<Option<RoundRow>, StoreError> {
            let row: Option<RoundColumns> = sqlx::query_as(sql::ROUND)
                .bind(name.as_str())
                .bind(signed(index))
                .fetch_optional(&mut *self)
                .await?;
            row.map(round).transpose()
        }
    }
}

impl MetaStore {
    /// Registers a run, unless its name is taken; the run as it is stored, and whether it is new.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_run(&self, pins: &Pins, at: i64) -> Result<(RunRow, bool), StoreError> {
        write!(self, |tx| {
            if let Some(existing) = tx.find_run(&pins.run).await? {
                return Ok((existing, false));
            }
            sqlx::query(sql::INSERT_RUN)
                .bind(pins.run.as_str())
                .bind(pins.consortium.as_str())
                .bind(&pins.wmcp_version)
                .bind(pins.probe_hash.map(|hash| hash.to_string()))
                .bind(pins.probe_version.map(signed))
                .bind(pins.config_hash.map(|hash| hash.to_string()))
                .bind(pins.warm_start.as_ref().map(WarmStart::to_json))
                .bind(serde_json::to_string(&pins.participants).unwrap_or_default())
                .bind(pins.min_participants.map(signed))
                .bind(pins.visibility.as_str())
                .bind(at)
                .execute(&mut *tx)
                .await?;
            let run = tx.find_run(&pins.run).await?.ok_or_else(|| corrupt(RUNS, "run"))?;
            tx.commit().await?;
            Ok((run, true))
        })
    }

    /// Reads a run.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn run(&self, name: &Name) -> Result<Option<RunRow>, StoreError> {
        read!(self, |connection| connection.find_run(name).await)
    }

    /// Runs registered before a place, newest first.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn runs(&self, before: (i64, &str), limit: u32) -> Result<Vec<RunRow>, StoreError> {
        snapshot!(self, |tx| {
            let names: Vec<(String, i64)> = sqlx::query_as(sql::RUNS)
                .bind(before.0)
                .bind(before.1)
                .bind(i64::from(limit))
                .fetch_all(&mut *tx)
                .await?;
            let mut runs = Vec::with_capacity(names.len());
            for (name, _) in names {
                runs.extend(tx.find_run(&parsed(&name, RUNS, "run")?).await?);
            }
            Ok(runs)
        })
    }

    /// One round of a run.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn round(&self, name: &Name, index: u64) -> Result<Option<RoundRow>, StoreError> {
        read!(self, |connection| connection.find_round(name, index).await)
    }

    /// Rounds below an index, newest first.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn rounds(&self, name: &Name, below: u64, limit: u32) -> Result<Vec<RoundRow>, StoreError> {
        let rows: Vec<RoundColumns> = read!(self, |connection| sqlx::query_as(sql::ROUNDS)
            .bind(name.as_str())
            .bind(signed(below))
            .bind(i64::from(limit))
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter().map(round).collect()
    }

    /// The newest round of a run that holds a group, its checkpoint, and whether the group is the encoder.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn round_of_group(
        &self,
        name: &Name,
        group: GroupHash,
    ) -> Result<Option<(u64, ContentHash, bool)>, StoreError> {
        let row: Option<(i64, String, i64)> = read!(self, |connection| sqlx::query_as(sql::ROUND_OF_GROUP)
            .bind(name.as_str())
            .bind(group.to_string())
            .fetch_optional(&mut *connection)
            .await?);
        row.map(|(round, hash, is_encoder)| {
            Ok((count(round, ROUNDS, "round_index")?, parsed(&hash, ROUNDS, "content_hash")?, is_encoder != 0))
        })
        .transpose()
    }

    /// Runs and rounds that committed an artifact, a hundred at most.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn commits_of(&self, artifact: ContentHash) -> Result<Vec<(String, u64)>, StoreError> {
        let rows: Vec<(String, i64)> = read!(self, |connection| sqlx::query_as(sql::COMMITS_OF_ARTIFACT)
            .bind(artifact.to_string())
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter().map(|(run, round)| Ok((run, count(round, ROUNDS, "round_index")?))).collect()
    }

    /// Open upload sessions for the place after a round.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn open_uploads(
        &self,
        round_index: u64,
        parent: Option<ContentHash>,
    ) -> Result<Vec<(String, ContentHash, i64)>, StoreError> {
        let rows: Vec<(String, String, i64)> = read!(self, |connection| sqlx::query_as(sql::OPEN_UPLOADS)
            .bind(signed(round_index))
            .bind(parent.map_or_else(String::new, |parent| parent.to_string()))
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter().map(|(id, hash, at)| Ok((id, parsed(&hash, "uploads", "content_hash")?, at))).collect()
    }
}
