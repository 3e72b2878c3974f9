//! The audit of a run by the registry itself: rows and files against each other. It changes nothing.

mod rows;

use std::collections::BTreeMap;

use self::rows::{look_at, look_at_document, told};
use super::error::ServiceError;
use super::registry::Registry;
use crate::api::audit::Audit;
use crate::core::audit::{AuditCode, Auditor, CommitmentFacts, Finding, LedgerFacts, Report, RunFacts, Tier};
use crate::core::document::Kind;
use crate::core::error::ErrorCode;
use crate::core::run::Name;
use crate::store::meta::StoreError;
use crate::store::meta::audit::AuditPage;
use crate::store::meta::run::RunRow;

/// Whose word the report is.
const BY: &str = "asserted by the server that keeps the run";

/// Rounds, lines and events that are read at a time.
const PAGE: u32 = 200;

/// Documents that are read at a time: each may have a mebibyte.
const DOCUMENTS: u32 = 8;

impl Registry {
    /// Checks everything that the registry holds of a run, as far as the tier goes.
    ///
    /// # Errors
    /// When there is no such run, or the database fails. What is damaged is a finding.
    pub async fn audit(&self, run: &Name, tier: Tier) -> Result<Audit, ServiceError> {
        let row = match self.run_row(run).await {
            Err(ServiceError::Store(StoreError::Corrupt { table, column })) => {
                let report = Report::unreadable(&format!("{table}.{column}"));
                return Ok(Audit::new(run.as_str(), tier, &report, BY));
            }
            row => row?,
        };
        let counted = self.meta.aborts_by_round(run, row.event_seq).await?;
        let many = |value: i64| u64::try_from(value).unwrap_or(u64::MAX);
        let aborts: BTreeMap<u64, u64> = counted.into_iter().map(|(round, count)| (many(round), many(count))).collect();
        let mut auditor = Auditor::new(RunFacts {
            pins: row.pins.clone(),
            head: row.tip.as_ref().map(|tip| (tip.round, tip.content_hash)),
            ledger_tail: row.ledger.map(|tail| tail.record_hash),
            ledger_count: row.ledger_count,
            ledger_round: row.ledger.map(|tail| tail.round_index),
            event_seq: Some(row.event_seq),
            aborts: aborts.values().sum(),
            tier,
        });
        audit_aborts(&row, &aborts, &mut auditor);
        auditor = self.audit_rounds(&row, auditor, tier, aborts).await?;
        self.audit_events(run, &mut auditor, row.event_seq).await?;
        self.audit_documents(&row, tier, &mut auditor).await?;
        self.audit_commitments(&row, &mut auditor).await?;
        self.audit_ledger(&row, &mut auditor).await?;
        self.audit_findings(run, &mut auditor).await?;
        Ok(Audit::new(run.as_str(), tier, &auditor.finish(), BY))
    }

    /// Whether something has happened in the run since its row was read: then what goes beyond that is no finding.
    async fn grew(&self, row: &RunRow) -> Result<bool, ServiceError> {
        Ok(self.run_row(&row.pins.run).await?.event_seq > row.event_seq)
    }

    /// Rounds, page by page; the next page is read while one is looked at.
    async fn audit_rounds(
        &self,
        row: &RunRow,
        mut auditor: Auditor,
        tier: Tier,
        aborts: BTreeMap<u64, u64>,
    ) -> Result<Auditor, ServiceError> {
        let (run, head) = (&row.pins.run, row.tip.as_ref().map(|tip| i64::try_from(tip.round).unwrap_or(i64::MAX)));
        let mut aborts = aborts;
        let mut page = self.meta.audit_page(run, 0, PAGE).await?;
        while let Some(last) = page.rounds.last() {
            // The highest number there can be has no next one.
            let from = last.round_index.checked_add(1);
            if head.is_none_or(|head| last.round_index > head) && self.grew(row).await? {
                page.rounds.retain(|round| head.is_some_and(|head| round.round_index <= head));
            }
            let blobs = self.blobs.clone();
            let looked = tokio::task::spawn_blocking(move || {
                look_at(&page, &blobs, tier, &aborts, &mut auditor);
                (auditor, aborts)
            });
            let next = async {
                match from {
                    Some(from) => self.meta.audit_page(run, from, PAGE).await,
                    None => Ok(AuditPage::default()),
                }
            };
            let (looked, next) = tokio::join!(looked, next);
            (auditor, aborts) = looked?;
            page = next?;
        }
        Ok(auditor)
    }

    async fn audit_events(&self, run: &Name, auditor: &mut Auditor, newest: u64) -> Result<(), ServiceError> {
        let mut after = i64::MIN;
        loop {
            let page = self.meta.events_to_audit(run, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.event_seq;
            for event in page {
                match u64::try_from(event.event_seq) {
                    // What has happened since the audit began is not part of it.
                    Ok(seq) if seq > newest => return Ok(()),
                    Ok(seq) => auditor.event(&told(run, seq, event)),
                    Err(_) => auditor.find(malformed("events.event_seq")),
                }
            }
        }
    }

    /// What stands beside every document, and its bytes.
    async fn audit_documents(&self, row: &RunRow, tier: Tier, auditor: &mut Auditor) -> Result<(), ServiceError> {
        let mut after = i64::MIN;
        loop {
            let page = self.meta.documents_to_audit(&row.pins.run, after, DOCUMENTS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            let newest = if self.grew(row).await? { row.event_seq } else { u64::MAX };
            let newest = i64::try_from(newest).unwrap_or(i64::MAX);
            let blobs = self.blobs.clone();
            let findings = tokio::task::spawn_blocking(move || {
                let old = page.iter().filter(|document| document.seq <= newest);
                old.flat_map(|document| look_at_document(document, &blobs, tier)).collect::<Vec<_>>()
            });
            for finding in findings.await? {
                auditor.find(finding);
            }
        }
    }

    /// Commitments beside the documents they were read from.
    async fn audit_commitments(&self, row: &RunRow, auditor: &mut Auditor) -> Result<(), ServiceError> {
        let run = &row.pins.run;
        let Some(commitments) = readable(self.meta.commitments(run).await, auditor)? else { return Ok(()) };
        if self.grew(row).await? {
            auditor.grows();
        }
        for held in commitments {
            let document = self.meta.document_body(run, Kind::DatasetCommitment.name(), held.digest).await?;
            auditor.commitment(&CommitmentFacts {
                participant: held.participant,
                from_round: held.from_round,
                root: held.merkle_root,
                digest: held.digest,
                received_at: Some(held.received_at),
                document,
            });
        }
        Ok(())
    }

    async fn audit_ledger(&self, row: &RunRow, auditor: &mut Auditor) -> Result<(), ServiceError> {
        let (mut from, mut left) = (0, row.ledger_count);
        loop {
            let page = self.meta.ledger_page(&row.pins.run, from, PAGE).await;
            let Some(page) = readable(page, auditor)? else { return Ok(()) };
            let Some(last) = page.last().map(|last| last.round_index) else { return Ok(()) };
            for line in page {
                if left == 0 && self.grew(row).await? {
                    return Ok(());
                }
                left = left.saturating_sub(1);
                auditor.record(&LedgerFacts {
                    line: line.line,
                    record_hash: Some(line.record_hash),
                    round_index: Some(line.round_index),
                    prev_record_hash: Some(line.prev_record_hash),
                    global_model_hash: Some(line.global_model_hash),
                });
            }
            // The highest number there can be has no next one.
            if i64::try_from(last).is_ok_and(|last| last == i64::MAX) {
                return Ok(());
            }
            from = last + 1;
        }
    }

    async fn audit_findings(&self, run: &Name, auditor: &mut Auditor) -> Result<(), ServiceError> {
        for finding in readable(self.meta.findings(run).await, auditor)?.unwrap_or_default() {
            if finding.code != ErrorCode::AggNondeterministic.as_str() {
                auditor.find(malformed("findings.code"));
            }
            auditor.find(Finding {
                code: AuditCode::AggNondeterministic,
                round_index: Some(finding.round_index),
                expected: finding.expected,
                found: finding.found,
                place: "commit".to_owned(),
            });
        }
        Ok(())
    }
}

/// How often each round was aborted; the open one is held against the run.
fn audit_aborts(row: &RunRow, aborts: &BTreeMap<u64, u64>, auditor: &mut Auditor) {
    for (round, count) in aborts {
        auditor.find(Finding {
            code: AuditCode::RoundAborted,
            round_index: Some(*round),
            expected: None,
            found: Some(count.to_string()),
            place: "aborts".to_owned(),
        });
    }
    let open = row.tip.as_ref().and_then(|tip| aborts.get(&tip.round)).copied().unwrap_or(0);
    if open != row.aborted {
        auditor.find(Finding {
            code: AuditCode::StateDiverges,
            round_index: row.tip.as_ref().map(|tip| tip.round),
            expected: Some(open.to_string()),
            found: Some(row.aborted.to_string()),
            place: "aborts of the open round".to_owned(),
        });
    }
}

/// That a column cannot be read is a finding; `None` then.
fn readable<T>(read: Result<T, StoreError>, auditor: &mut Auditor) -> Result<Option<T>, ServiceError> {
    match read {
        Err(StoreError::Corrupt { table, column }) => {
            auditor.find(malformed(&format!("{table}.{column}")));
            Ok(None)
        }
        read => Ok(Some(read?)),
    }
}

fn malformed(place: &str) -> Finding {
    Finding { code: AuditCode::EntryMalformed, round_index: None, expected: None, found: None, place: place.to_owned() }
}
