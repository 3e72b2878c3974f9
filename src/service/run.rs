//! Runs: register, look at, wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;

use super::error::ServiceError;
use super::registry::{Registry, now_micros, rfc3339};
use crate::api::artifact::ParamRef;
use crate::api::route;
use crate::api::run::{Abort, Aborts, Head, OpenSession, Round, Rounds, Run, Runs, WarmStart};
use crate::core::digest::{GroupHash, ProbeHash};
use crate::core::document::{Document, Kind};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::locator::mint;
use crate::core::run::{Name, Pins};
use crate::core::seed;
use crate::store::meta::run::{RoundRow, RunRow};

/// The groups as the rounds name them: theta and phi.
pub(super) const ENCODER: &str = "encoder";
pub(super) const PREDICTOR: &str = "predictor";

/// Heads kept in memory.
const REMEMBERED: usize = 1000;

/// What runs stand at, as long as nothing has happened to any of them.
///
/// A head is believed only while the count is the one from before it was looked at: whoever looked at the database
/// before a commit and writes down what it saw after it writes something that nobody reads. To forget one run's entry
/// would not do, since that entry may be written a moment later, and a waiter who reads it waits for ever.
#[derive(Debug)]
pub(super) struct Heads {
    known: Cache<Name, (u64, Arc<Head>)>,
    /// Counts whatever may change what a head shows.
    changes: AtomicU64,
}

impl Heads {
    pub(super) fn new() -> Self {
        Self { known: Cache::new(REMEMBERED), changes: AtomicU64::new(0) }
    }

    /// Something has happened to a run, or an upload session has begun or ended: the next look at any head goes to the
    /// database. Called after the row is written and before anybody is told.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Registry {
    /// Registers a run; whether it is new.
    ///
    /// # Errors
    /// `config_invalid`, or `registry_conflict` when the name is taken by a run with other pins.
    pub async fn create_run(&self, body: &[u8]) -> Result<(Run, bool), ServiceError> {
        let pins = Pins::parse(body)?;
        let (row, created) = self.meta.create_run(&pins, now_micros()).await?;
        let differing = pins.differences(&row.pins);
        if !created && !differing.is_empty() {
            let error =
                DomainError::new(ErrorCode::RegistryConflict, "a run of this name is registered with other pins")
                    .field("differing_fields", differing)
                    .remedy("Pins never change. Use the registered ones, or begin a new run under another name.");
            return Err(ServiceError::Conflict(error));
        }
        if created {
            tracing::info!(run.id = %pins.run, consortium = %pins.consortium, "run registered");
        }
        Ok((view(&row), created))
    }

    /// A run's row.
    pub(super) async fn run_row(&self, name: &Name) -> Result<RunRow, ServiceError> {
        self.meta.run(name).await?.ok_or_else(no_run)
    }

    /// Describes a run.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn run(&self, name: &Name) -> Result<Run, ServiceError> {
        Ok(view(&self.run_row(name).await?))
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the cursor is none of ours.
    pub async fn runs(&self, cursor: Option<&str>, limit: u32) -> Result<Runs, ServiceError> {
        let before = match cursor {
            None => (i64::MAX, None),
            Some(cursor) => {
                let place = |(at, run): (&str, &str)| Some((at.parse().ok()?, Some(run.parse::<Name>().ok()?)));
                cursor.split_once('~').and_then(place).ok_or_else(bad_cursor)?
            }
        };
        let before = (before.0, before.1.as_ref().map_or("", Name::as_str));
        let rows = self.meta.runs(before, limit + 1).await?;
        let more = rows.len() > limit as usize;
        let page = &rows[..rows.len().min(limit as usize)];
        let next_cursor = page.last().filter(|_| more).map(|last| format!("{}~{}", last.created_at, last.pins.run));
        Ok(Runs { runs: page.iter().map(view).collect(), next_cursor })
    }

    /// What a run stands at, with the entity tag of it.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn head(&self, name: &Name) -> Result<(Arc<Head>, String), ServiceError> {
        let changes = self.heads.changes.load(Ordering::Acquire);
        let head = match self.heads.known.get(name) {
            Some((seen, head)) if seen == changes => head,
            _ => {
                let head = Arc::new(self.look_at(name).await?);
                self.heads.known.insert(name.clone(), (changes, Arc::clone(&head)));
                head
            }
        };
        let tag = tag(&head);
        Ok((head, tag))
    }

    async fn look_at(&self, name: &Name) -> Result<Head, ServiceError> {
        let row = self.run_row(name).await?;
        let round = match &row.tip {
            Some(tip) => self.meta.round(name, tip.round).await?,
            None => None,
        };
        let next = row.tip.as_ref().map_or(0, |tip| tip.round + 1);
        let parent = row.tip.as_ref().map(|tip| tip.content_hash);
        let sessions = self.meta.open_uploads(next, parent).await?;
        let pins = &row.pins;
        let reference = |hash: Option<GroupHash>, group| {
            hash.zip(row.tip.as_ref()).map(|(hash, tip)| param_ref(pins, tip.round, hash, group))
        };
        let sketch_seed = match &row.tip {
            Some(tip) => self.sketch_seed(name, tip.round).await?,
            None => None,
        };
        Ok(Head {
            run: pins.run.to_string(),
            consortium: pins.consortium.to_string(),
            round_index: row.tip.as_ref().map(|tip| tip.round),
            content_hash: parent.map(|hash| hash.to_string()),
            parent_hash: round.as_ref().and_then(|round| round.parent_hash).map(|hash| hash.to_string()),
            theta_ref: reference(round.as_ref().and_then(|round| round.theta), ENCODER),
            phi_ref: reference(round.as_ref().and_then(|round| round.phi), PREDICTOR),
            sketch_seed,
            probe_hash: pins.probe_hash.unwrap_or(ProbeHash::NONE).to_string(),
            wmcp_version: pins.wmcp_version.clone(),
            ledger_tail: row.ledger.map(|tail| tail.record_hash.to_string()),
            ledger_round: row.ledger.map(|tail| tail.round_index),
            ledger_count: row.ledger_count,
            attempt: row.aborted + 1,
            open_sessions: sessions
                .into_iter()
                .filter(|(_, _, expires_at)| *expires_at > now_micros())
                .map(|(id, hash, expires_at)| OpenSession {
                    url: route::upload(&id),
                    id,
                    content_hash: hash.to_string(),
                    expires_at: rfc3339(expires_at),
                })
                .collect(),
            event_id: row.event_seq,
            resume: "warm-restart".to_owned(),
        })
    }

    /// The seed of a round's sketch, as the coordinator's manifest implies it.
    pub(super) async fn sketch_seed(&self, name: &Name, round: u64) -> Result<Option<u64>, ServiceError> {
        let found = self.meta.newest_document(name, Kind::RunManifest.name(), COORDINATOR).await?;
        let Some((_, body)) = found else { return Ok(None) };
        let decoded = tokio::task::spawn_blocking(move || Document::decode(Kind::RunManifest, &body)).await?;
        Ok(match decoded {
            Ok(Document::RunManifest(manifest)) => Some(seed::sketch(&manifest.root_seed, round)),
            _ => None,
        })
    }

    /// Waits until a head is another than the one with this tag, or the time is over.
    ///
    /// # Errors
    /// When there is no run of this name.
    pub async fn wait_for_head(
        &self,
        name: &Name,
        known: &str,
        patience: Duration,
    ) -> Result<(Arc<Head>, String), ServiceError> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut subscription = self.subscribe(name, None).await?;
        loop {
            let (head, tag) = self.head(name).await?;
            if tag != known {
                return Ok((head, tag));
            }
            match tokio::time::timeout_at(deadline, subscription.changed()).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return Ok((head, tag)),
            }
        }
    }

    /// Rounds, newest first.
    ///
    /// # Errors
    /// When there is no run of this name, or the cursor is none of ours.
    pub async fn rounds(&self, name: &Name, cursor: Option<&str>, limit: u32) -> Result<Rounds, ServiceError> {
        let row = self.run_row(name).await?;
        let below = cursor.map_or(Ok(u64::MAX), str::parse).map_err(|_| bad_cursor())?;
        let rows = self.meta.rounds(name, below, limit).await?;
        let next_cursor = rows
            .last()
            .filter(|last| rows.len() == limit as usize && last.round_index > 0)
            .map(|last| last.round_index.to_string());
        Ok(Rounds { rounds: rows.iter().map(|round| round_view(&row.pins, round)).collect(), next_cursor })
    }

    /// One round.
    ///
    /// # Errors
    /// When there is none.
    pub async fn round(&self, name: &Name, index: u64) -> Result<Round, ServiceError> {
        let row = self.run_row(name).await?;
        let round = self.meta.round(name, index).await?;
        Ok(round_view(&row.pins, &round.ok_or_else(|| ServiceError::not_found("this round of the run"))?))
    }

    /// Aborts, newest first.
    ///
    /// # Errors
    /// When there is no run of this name, or the cursor is none of ours.
    pub async fn aborts(&self, name: &Name, cursor: Option<&str>, limit: u32) -> Result<Aborts, ServiceError> {
        self.run_row(name).await?;
        let below = cursor.map_or(Ok(u64::MAX), str::parse).map_err(|_| bad_cursor())?;
        let mut rows = self.meta.aborts(name, below, limit + 1).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next_cursor = rows.last().filter(|_| more).map(|last| last.event_seq.to_string());
        Ok(Aborts { aborts: rows.into_iter().map(abort_view).collect(), next_cursor })
    }
}

/// How the summary of a coordinator's manifest begins.
pub(super) const COORDINATOR: &str = r#"{"run_mode":"coordinator""#;

pub(super) fn no_run() -> ServiceError {
    let error = DomainError::new(ErrorCode::RegistryNotFound, "a run of this name is not in this registry");
    error.remedy("Check the name, or register the run first.").into()
}

pub(super) fn bad_cursor() -> DomainError {
    DomainError::new(ErrorCode::ConfigInvalid, "the cursor is none that this registry has given")
        .field("key", "cursor")
        .remedy("Send the next_cursor of the page before, or none.")
}

/// The entity tag of a head: it changes with the round, the ledger, and when the seed of the round becomes known. Weak,
/// since attempts, and sessions that come and go, change the bytes but not the tag.
fn tag(head: &Head) -> String {
    let short = |hash: &Option<String>| hash.as_ref().map_or("none", |hash| &hash[..16]).to_owned();
    let round = head.round_index.map_or_else(|| "none".to_owned(), |round| round.to_string());
    let seed = if head.sketch_seed.is_some() { "-seed" } else { "" };
    format!(r#"W/"{round}-{}-{}{seed}""#, short(&head.content_hash), short(&head.ledger_tail))
}

pub(super) fn param_ref(pins: &Pins, round: u64, hash: GroupHash, group: &str) -> ParamRef {
    ParamRef { content_hash: hash.to_string(), locator: mint(&pins.consortium, &pins.run, round, group) }
}

pub(super) fn round_view(pins: &Pins, round: &RoundRow) -> Round {
    Round {
        run: pins.run.to_string(),
        round_index: round.round_index,
        content_hash: round.content_hash.to_string(),
        parent_hash: round.parent_hash.map(|hash| hash.to_string()),
        theta_ref: round.theta.map(|hash| param_ref(pins, round.round_index, hash, ENCODER)),
        phi_ref: round.phi.map(|hash| param_ref(pins, round.round_index, hash, PREDICTOR)),
        size: round.size,
        attempt: round.attempt,
        committed_at: rfc3339(round.committed_at),
        record_hash: round.record_hash.map(|hash| hash.to_string()),
    }
}

pub(super) fn abort_view(row: crate::store::meta::news::AbortRow) -> Abort {
    Abort {
        round_index: row.round_index,
        attempt: row.attempt,
        reason_code: row.reason_code,
        detail: row.detail,
        aborted_at: rfc3339(row.at),
    }
}

fn view(row: &RunRow) -> Run {
    let pins = &row.pins;
    Run {
        run: pins.run.to_string(),
        consortium: pins.consortium.to_string(),
        wmcp_version: pins.wmcp_version.clone(),
        probe_hash: pins.probe_hash.map(|hash| hash.to_string()),
        probe_version: pins.probe_version,
        config_hash: pins.config_hash.map(|hash| hash.to_string()),
        warm_start: pins.warm_start.as_ref().map(|pin| WarmStart {
            release: pin.release.clone(),
            encoder_group_hash: pin.encoder_group_hash.to_string(),
            file_hash: pin.file_hash.map(|hash| hash.to_string()),
            source_checkpoint: pin.source_checkpoint.map(|hash| hash.to_string()),
        }),
        participants: pins.participants.clone(),
        min_participants: pins.min_participants,
        visibility: pins.visibility.as_str().to_owned(),
        created_at: rfc3339(row.created_at),
        head_round: row.tip.as_ref().map(|tip| tip.round),
        head_hash: row.tip.as_ref().map(|tip| tip.content_hash.to_string()),
        ledger_count: row.ledger_count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Options;

    #[tokio::test]
    async fn what_was_seen_before_a_change_is_not_read_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path(), Options::default()).await.unwrap();
        registry.create_run(br#"{"run":"r","consortium":"c","wmcp_version":"wmcp-1.0.0"}"#).await.unwrap();
        let name: Name = "r".parse().unwrap();
        // One reader looks and is held up; meanwhile something happens; then it writes down what it saw.
        let before = registry.heads.changes.load(Ordering::Acquire);
        let seen = Arc::new(registry.look_at(&name).await.unwrap());
        let manifest = crate::core::tests::bytes("run/run_manifest.json");
        registry.keep_document(&name, "run-manifest", manifest).await.unwrap();
        registry.heads.known.insert(name.clone(), (before, seen));
        assert_eq!(registry.head(&name).await.unwrap().0.event_id, 1);
        // What was seen since is read from memory.
        let again = registry.head(&name).await.unwrap().0;
        assert!(Arc::ptr_eq(&again, &registry.head(&name).await.unwrap().0));
    }
}
