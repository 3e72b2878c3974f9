//! A round is committed, or given up.

use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument as _;

use super::error::ServiceError;
use super::registry::{Registry, now_micros};
use super::run::{ENCODER, PREDICTOR, abort_view, no_run, param_ref, round_view};
use crate::api::run::{Abort, NewAbort, NewCommit, Round};
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash, Sha256Hash};
use crate::core::document::contribution::{ContributionRecord, ledger_line};
use crate::core::document::residency::check_text;
use crate::core::document::round_message::RoundClose;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::limits::Limits;
use crate::core::lineage::Candidate;
use crate::core::run::{Name, Pins};
use crate::core::sha256::Sha256;
use crate::store::crash::crash_point;
use crate::store::meta::StoreError;
use crate::store::meta::commit::{Committing, News, Proposal};
use crate::store::meta::news::{Aborting, FindingRow};
use crate::store::meta::run::RoundRow;

/// The longest Idempotency-Key.
const LONGEST_KEY: usize = 255;

/// The longest detail of an abort.
const LONGEST_DETAIL: usize = 4096;

impl Registry {
    /// Commits a checkpoint as the next round of a run: all of it or nothing. Goes on when the caller goes away;
    /// repeating it is harmless. The round, and whether this call made it.
    ///
    /// # Errors
    /// When the checkpoint or its record does not fit the run; the head is in the fields.
    pub async fn commit(
        self: &Arc<Self>,
        run: &Name,
        commit: NewCommit,
        key: Option<&str>,
    ) -> Result<(Round, bool), ServiceError> {
        let (registry, run, key) = (Arc::clone(self), run.clone(), key.map(str::to_owned));
        tokio::spawn(async move { registry.commit_now(&run, commit, key).await }.in_current_span()).await?
    }

    async fn commit_now(
        self: &Arc<Self>,
        run: &Name,
        commit: NewCommit,
        key: Option<String>,
    ) -> Result<(Round, bool), ServiceError> {
        check_key(key.as_deref())?;
        let pins = self.run_row(run).await?.pins;
        let told = Told::read(&commit)?;
        let record = match &commit.record {
            None => None,
            Some(text) => Some(self.record(text.get(), told.content_hash).await?),
        };
        let mut proposal = self.proposal(&told).await?;
        proposal.key = key.map(|key| (key, told.digest(record.as_ref().map(|(record, _)| record))));
        proposal.record = record;
        let start = Instant::now();
        let committing = self.meta.commit_round(run, &proposal, news).await?;
        self.metrics.commit_seconds.observe(start.elapsed().as_secs_f64());
        match committing {
            Committing::Done { round, created } => {
                if created {
                    self.heads.changed();
                    self.memory.forget(told.content_hash);
                    self.news.tell(run);
                    self.metrics.commits.inc();
                    tracing::info!(run.id = %run, round.index = round.round_index, artifact.hash = %round.content_hash,
                        "round committed");
                    crash_point("commit.answer");
                }
                Ok((round_view(&pins, &round), created))
            }
            Committing::NoRun => Err(no_run()),
            Committing::Refused(error) => {
                self.keep_contradiction(run, &told, &error).await?;
                self.witness(&error, Some(told.content_hash)).await;
                Err(ServiceError::Conflict(error))
            }
        }
    }

    /// Reads the record of a commit.
    async fn record(&self, text: &str, committed: ContentHash) -> Result<(ContributionRecord, String), ServiceError> {
        match ContributionRecord::parse(text.as_bytes()) {
            Ok(record) => {
                let line = ledger_line(text, &record);
                Ok((record, line))
            }
            Err(error) => {
                self.witness(&error, Some(committed)).await;
                Err(error.into())
            }
        }
    }

    /// Makes sure that the checkpoint is here and sound, and that the caller speaks of this one.
    async fn proposal(&self, told: &Told) -> Result<Proposal, ServiceError> {
        let hash = told.content_hash;
        let known = match self.known(hash).await {
            Err(ServiceError::Refused(error)) if error.code() == ErrorCode::RegistryNotFound => {
                return Err(error.remedy("Push the checkpoint first, then commit it.").into());
            }
            known => known?,
        };
        for file in &known.row.files {
            self.open_blob(hash, file).await?;
        }
        let text = self.meta.header(hash).await?.ok_or(StoreError::Corrupt { table: "artifacts", column: "header" })?;
        let digest = known.row.header_digest;
        let group = |name| known.row.groups.iter().find(|group| group.name == name).map(|group| group.digest);
        let (theta, phi) = (group(ENCODER), group(PREDICTOR));
        let candidate = tokio::task::spawn_blocking(move || {
            if BlobDigest::of(&text) != digest {
                return None;
            }
            let header = Header::parse(&text, &Limits::STORED).ok()?;
            Some(Candidate::of(&header, theta))
        })
        .await?
        .ok_or(StoreError::Corrupt { table: "artifacts", column: "header" })?;
        told.agrees(&candidate)?;
        Ok(Proposal {
            candidate,
            header_digest: digest,
            theta,
            phi,
            size: known.row.size,
            record: None,
            key: None,
            at: now_micros(),
        })
    }

    /// Two results for one round are a finding that an audit shows for ever.
    async fn keep_contradiction(&self, run: &Name, told: &Told, error: &DomainError) -> Result<(), ServiceError> {
        if error.code() != ErrorCode::AggNondeterministic {
            return Ok(());
        }
        let text = |name: &str| error.fields().get(name).and_then(|value| value.as_str()).map(str::to_owned);
        let finding = FindingRow {
            at: now_micros(),
            code: error.code().as_str().to_owned(),
            round_index: told.round_index,
            expected: text("expected_hash"),
            found: text("got_hash"),
        };
        Ok(self.meta.add_finding(run, &finding).await?)
    }

    /// Gives up the training of the round that is open. The head stays; what was staged for the next round is dropped.
    ///
    /// # Errors
    /// When this round is not open, or the reason is none of the codes.
    pub async fn abort(
        self: &Arc<Self>,
        run: &Name,
        abort: NewAbort,
        key: Option<&str>,
    ) -> Result<Abort, ServiceError> {
        check_key(key)?;
        if ErrorCode::parse(&abort.reason_code).is_none() {
            let error = DomainError::new(ErrorCode::ConfigInvalid, "the reason_code is none of the error codes")
                .field("key", "reason_code")
                .remedy("Name one of the codes of docs/errors.md, such as aggregation_failed.");
            return Err(error.into());
        }
        if let Some(detail) = &abort.detail {
            if detail.len() > LONGEST_DETAIL {
                return Err(DomainError::new(ErrorCode::ConfigInvalid, "the detail is too long")
                    .field("key", "detail")
                    .field("limit", LONGEST_DETAIL)
                    .into());
            }
            // Postgres keeps no text with it, and nobody writes it on purpose.
            if detail.contains('\0') {
                return Err(DomainError::new(ErrorCode::ConfigInvalid, "the detail holds a null character")
                    .field("key", "detail")
                    .into());
            }
            if let Err(error) = check_text(detail) {
                self.witness(&error, None).await;
                return Err(error.into());
            }
        }
        let head = self.run_row(run).await?.tip;
        let new = crate::store::meta::news::NewAbort {
            round_index: abort.round_index,
            reason_code: &abort.reason_code,
            detail: abort.detail.as_deref(),
            key: key.map(|key| (key, asked(&abort))),
            at: now_micros(),
        };
        let aborting = self
            .meta
            .abort_round(run, &new, |row| {
                serde_json::json!({
                    "run": run.as_str(),
                    "round_index": row.round_index,
                    "attempt": row.attempt,
                    "reason_code": row.reason_code,
                    "detail": row.detail,
                })
                .to_string()
            })
            .await?;
        match aborting {
            Aborting::NoRun => Err(no_run()),
            Aborting::Refused(error) => Err(ServiceError::Conflict(error)),
            Aborting::Done(row) => {
                for (id, _, _) in self.meta.open_uploads(row.round_index + 1, head.map(|tip| tip.content_hash)).await? {
                    match self.abort_upload(&id).await {
                        // It has ended by itself meanwhile.
                        Err(error) if error.domain().is_some() => {}
                        ended => ended?,
                    }
                }
                self.heads.changed();
                self.news.tell(run);
                self.metrics.aborts.inc();
                tracing::info!(run.id = %run, round.index = row.round_index, code = row.reason_code, "round aborted");
                Ok(abort_view(row))
            }
        }
    }
}

/// What two aborts with one Idempotency-Key must have in common.
fn asked(abort: &NewAbort) -> Sha256Hash {
    let mut hasher = Sha256::new();
    hasher.update(&abort.round_index.to_le_bytes());
    for text in [Some(&abort.reason_code), abort.detail.as_ref()] {
        hasher.update(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
        hasher.update(text.map_or(b"", |text| text.as_bytes()));
    }
    Sha256Hash::from_bytes(hasher.finalize())
}

/// What the caller of a commit says.
struct Told {
    content_hash: ContentHash,
    round_index: u64,
    parent_hash: Option<ContentHash>,
}

impl Told {
    fn read(commit: &NewCommit) -> Result<Self, DomainError> {
        let digest = |name: &'static str, text: &str| {
            text.parse().map_err(|_| {
                DomainError::new(ErrorCode::ConfigInvalid, format!("{name} must be 64 lowercase hexadecimal digits"))
                    .field("key", name)
            })
        };
        Ok(Self {
            content_hash: digest("content_hash", &commit.content_hash)?,
            round_index: commit.round_index,
            parent_hash: commit.parent_hash.as_deref().map(|hash| digest("parent_hash", hash)).transpose()?,
        })
    }

    /// Refuses a call that contradicts the checkpoint it names.
    fn agrees(&self, candidate: &Candidate) -> Result<(), ServiceError> {
        let text = |hash: Option<ContentHash>| hash.map(|hash| hash.to_string());
        let differs = |reason: &'static str, message: &str| {
            DomainError::new(ErrorCode::RoundFailed, message)
                .field("reason", reason)
                .remedy("Take round_index and parent_hash from the checkpoint's header.json.")
        };
        let error = if self.round_index != candidate.round_index {
            differs("round_differs_from_header", "the round index is not the one in the checkpoint's header")
                .field("expected", candidate.round_index)
                .field("got", self.round_index)
        } else if self.parent_hash != candidate.parent_hash {
            differs("parent_differs_from_header", "the parent is not the one in the checkpoint's header")
                .field("expected", text(candidate.parent_hash))
                .field("got", text(self.parent_hash))
        } else {
            return Ok(());
        };
        Err(ServiceError::Conflict(error))
    }

    /// What two calls with one Idempotency-Key must have in common.
    fn digest(&self, record: Option<&ContributionRecord>) -> Sha256Hash {
        let mut hasher = Sha256::new();
        hasher.update(self.content_hash.as_bytes());
        hasher.update(&self.round_index.to_le_bytes());
        hasher.update(self.parent_hash.map_or([0; 32], |hash| *hash.as_bytes()).as_slice());
        hasher.update(record.map_or([0; 32], |record| *record.hash().as_bytes()).as_slice());
        Sha256Hash::from_bytes(hasher.finalize())
    }
}

/// What those who wait are told of a commit.
fn news(pins: &Pins, round: &RoundRow) -> Vec<News> {
    let reference = |hash: Option<_>, group| hash.map(|hash| param_ref(pins, round.round_index, hash, group));
    let committed = serde_json::json!({
        "run": pins.run.as_str(),
        "round_index": round.round_index,
        "content_hash": round.content_hash,
        "parent_hash": round.parent_hash,
        "theta_ref": reference(round.theta, ENCODER),
        "phi_ref": reference(round.phi, PREDICTOR),
        "record_hash": round.record_hash,
        "attempt": round.attempt,
    });
    let mut news = vec![("checkpoint.committed", committed.to_string())];
    if let Some(closed) = round.round_index.checked_sub(1) {
        let close = RoundClose { round_index: closed, global_model_hash: round.content_hash };
        news.push(("round.close", close.to_json()));
    }
    news
}

fn check_key(key: Option<&str>) -> Result<(), DomainError> {
    let good = |key: &str| {
        (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    };
    if key.is_none_or(good) {
        return Ok(());
    }
    Err(DomainError::new(ErrorCode::ConfigInvalid, "an Idempotency-Key has 1 to 255 printable ASCII characters")
        .field("key", "idempotency-key"))
}
