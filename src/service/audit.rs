//! The audit of a run by the registry itself: rows and files against each other. It changes nothing.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::error::ServiceError;
use super::registry::Registry;
use super::shelf::digest_of;
use super::verify::recompute;
use crate::api::audit::Audit;
use crate::core::audit::{
    ArtifactFacts, AuditCode, Auditor, CommitmentFacts, FileFacts, Finding, LedgerFacts, Presence, RoundFacts,
    RunFacts, Tier,
};
use crate::core::checkpoint::Links;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::document::Kind;
use crate::core::intake::Verified;
use crate::core::run::Name;
use crate::store::blob::{BlobKey, LocalBlobs};
use crate::store::meta::StoreError;
use crate::store::meta::audit::{AuditFileRow, AuditGroupRow, AuditPage, AuditRow};
use crate::store::meta::run::RunRow;

use super::run::{ENCODER, PREDICTOR};

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
                return Ok(unreadable_run(run, tier, &format!("{table}.{column}")));
            }
            row => row?,
        };
        let mut auditor = Auditor::new(RunFacts {
            pins: row.pins.clone(),
            head: row.tip.as_ref().map(|tip| (tip.round, tip.content_hash)),
            ledger_tail: row.ledger.map(|tail| tail.record_hash),
            ledger_count: row.ledger_count,
            event_seq: Some(row.event_seq),
            tier,
        });
        let aborts = self.audit_aborts(&row, &mut auditor).await?;
        auditor = self.audit_rounds(run, auditor, tier, aborts).await?;
        self.audit_events(run, &mut auditor, row.event_seq).await?;
        self.audit_documents(run, &mut auditor).await?;
        self.audit_ledger(run, &mut auditor).await?;
        for finding in self.meta.findings(run).await? {
            auditor.find(Finding {
                code: AuditCode::AggNondeterministic,
                round_index: Some(finding.round_index),
                expected: finding.expected,
                found: finding.found,
                place: "commit".to_owned(),
            });
        }
        Ok(Audit::new(run.as_str(), tier, &auditor.finish(), "asserted by the server that keeps the run"))
    }

    /// How often each round was aborted; the open one is held against the run.
    async fn audit_aborts(&self, row: &RunRow, auditor: &mut Auditor) -> Result<BTreeMap<u64, u64>, ServiceError> {
        let number = |value: i64| u64::try_from(value).unwrap_or(u64::MAX);
        let counted = self.meta.aborts_by_round(&row.pins.run).await?;
        let aborts: BTreeMap<u64, u64> =
            counted.into_iter().map(|(round, count)| (number(round), number(count))).collect();
        for (round, count) in &aborts {
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
        Ok(aborts)
    }

    /// Rounds, page by page; the next page is read while one is looked at.
    async fn audit_rounds(
        &self,
        run: &Name,
        mut auditor: Auditor,
        tier: Tier,
        aborts: BTreeMap<u64, u64>,
    ) -> Result<Auditor, ServiceError> {
        let mut aborts = aborts;
        let mut page = self.meta.audit_page(run, 0, PAGE).await?;
        while let Some(last) = page.rounds.last() {
            let from = last.round_index.saturating_add(1);
            let blobs = self.blobs.clone();
            let looked = tokio::task::spawn_blocking(move || {
                look_at(&page, &blobs, tier, &aborts, &mut auditor);
                (auditor, aborts)
            });
            let (looked, next) = tokio::join!(looked, self.meta.audit_page(run, from, PAGE));
            (auditor, aborts) = looked?;
            page = next?;
        }
        Ok(auditor)
    }

    async fn audit_events(&self, run: &Name, auditor: &mut Auditor, newest: u64) -> Result<(), ServiceError> {
        let mut after = 0;
        loop {
            let page = self.meta.events(run, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            // What has happened since the audit began is not part of it.
            for event in page.iter().filter(|event| event.seq <= newest) {
                auditor.event(event.seq, &event.kind, &event.data);
            }
            if after >= newest {
                return Ok(());
            }
        }
    }

    /// Commitments beside the documents they were read from, and the bytes of every document.
    async fn audit_documents(&self, run: &Name, auditor: &mut Auditor) -> Result<(), ServiceError> {
        let mut from = 0;
        loop {
            let page = self.meta.documents_to_audit(run, from, DOCUMENTS).await?;
            let Some(last) = page.last() else { break };
            from = u64::try_from(last.0).unwrap_or(u64::MAX).saturating_add(1);
            for (_, kind, digest, body) in page {
                let found = body.as_deref().map(|body| BlobDigest::of(body).to_string());
                if found.as_ref() != Some(&digest) && body.is_some() {
                    auditor.find(Finding {
                        code: AuditCode::BlobHashMismatch,
                        round_index: None,
                        expected: Some(digest),
                        found,
                        place: format!("document of kind {kind}"),
                    });
                }
            }
        }
        let commitments = match self.meta.commitments(run).await {
            Err(StoreError::Corrupt { table, column }) => {
                auditor.find(malformed(&format!("{table}.{column}")));
                return Ok(());
            }
            commitments => commitments?,
        };
        for held in commitments {
            let document = self.meta.document_body(run, Kind::DatasetCommitment.name(), held.digest).await?;
            auditor.commitment(&CommitmentFacts {
                participant: held.participant,
                from_round: held.from_round,
                root: held.merkle_root,
                digest: held.digest,
                document,
            });
        }
        Ok(())
    }

    async fn audit_ledger(&self, run: &Name, auditor: &mut Auditor) -> Result<(), ServiceError> {
        let mut from = 0;
        loop {
            let page = self.meta.ledger_page(run, from, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            from = last.round_index + 1;
            for row in page {
                auditor.record(&LedgerFacts {
                    line: row.line,
                    record_hash: Some(row.record_hash),
                    round_index: Some(row.round_index),
                    prev_record_hash: Some(row.prev_record_hash),
                    global_model_hash: Some(row.global_model_hash),
                });
            }
        }
    }
}

/// A run whose own row is damaged: nothing else can be held against it.
fn unreadable_run(run: &Name, tier: Tier, place: &str) -> Audit {
    let report = crate::core::audit::Report {
        rounds: 0,
        records: 0,
        findings: vec![malformed(place)],
        failures: 1,
        warnings: 0,
    };
    Audit::new(run.as_str(), tier, &report, "asserted by the server that keeps the run")
}

fn malformed(place: &str) -> Finding {
    Finding { code: AuditCode::EntryMalformed, round_index: None, expected: None, found: None, place: place.to_owned() }
}

/// Holds a page of rounds against what lies in the store. Blocks.
fn look_at(page: &AuditPage, blobs: &LocalBlobs, tier: Tier, aborts: &BTreeMap<u64, u64>, auditor: &mut Auditor) {
    let (mut files, mut groups) = (page.files.as_slice(), page.groups.as_slice());
    for row in &page.rounds {
        let own_files = take(&mut files, |file: &AuditFileRow| file.round_index == row.round_index);
        let own_groups = take(&mut groups, |group: &AuditGroupRow| group.round_index == row.round_index);
        match facts(row, own_files, own_groups, blobs, tier, aborts) {
            Ok(facts) => auditor.round(&facts),
            Err(column) => auditor.unreadable_round(u64::try_from(row.round_index).ok(), column),
        }
    }
}

/// Splits off the entries at the front that belong together.
fn take<'a, T>(entries: &mut &'a [T], belongs: impl Fn(&T) -> bool) -> &'a [T] {
    let count = entries.iter().take_while(|entry| belongs(entry)).count();
    let (front, rest) = entries.split_at(count);
    *entries = rest;
    front
}

/// The columns as what they must be; the name of the first that is not.
fn facts(
    row: &AuditRow,
    files: &[AuditFileRow],
    groups: &[AuditGroupRow],
    blobs: &LocalBlobs,
    tier: Tier,
    aborts: &BTreeMap<u64, u64>,
) -> Result<RoundFacts, &'static str> {
    let content_hash: ContentHash = parse(&row.content_hash, "rounds.content_hash")?;
    let round_index = number(row.round_index, "rounds.round_index")?;
    let verified = if tier == Tier::Deep { verified(row, files, blobs) } else { None };
    let mut file_facts = Vec::with_capacity(files.len());
    for file in files {
        let digest: BlobDigest = parse(&file.digest, "artifact_files.digest")?;
        let size = number(file.size.unwrap_or(0), "blobs.size")?;
        file_facts.push(FileFacts {
            name: file.name.clone(),
            digest,
            size,
            presence: presence(file, blobs, tier, verified.as_ref()),
        });
    }
    let header = row.header.as_deref().map(|text| (BlobDigest::of(text), Links::parse(text)));
    let artifact = match (row.own_round, row.own_size) {
        (Some(round), Some(size)) => Some(ArtifactFacts {
            round_index: number(round, "artifacts.round_index")?,
            parent_hash: maybe(row.own_parent.as_ref(), "artifacts.parent_hash")?,
            header_digest: maybe(row.own_digest.as_ref(), "artifacts.header_digest")?,
            size: number(size, "artifacts.size")?,
            theta: group(groups, ENCODER)?,
            phi: group(groups, PREDICTOR)?,
            recomputed: (tier == Tier::Deep)
                .then(|| verified.as_ref().is_some_and(|verified| agrees(verified, content_hash, groups))),
            files: file_facts,
        }),
        _ => None,
    };
    Ok(RoundFacts {
        round_index,
        content_hash,
        parent_hash: maybe(row.parent_hash.as_ref(), "rounds.parent_hash")?,
        header_digest: Some(parse(&row.header_digest, "rounds.header_digest")?),
        theta: maybe(row.theta_hash.as_ref(), "rounds.theta_hash")?,
        phi: maybe(row.phi_hash.as_ref(), "rounds.phi_hash")?,
        size: number(row.size, "rounds.size")?,
        attempt: number(row.attempt, "rounds.attempt")?,
        // Aborts belong to the round that was trained: the one before.
        aborts: round_index.checked_sub(1).and_then(|trained| aborts.get(&trained)).copied().unwrap_or(0),
        header,
        artifact,
    })
}

fn parse<T: FromStr>(text: &str, column: &'static str) -> Result<T, &'static str> {
    text.parse().map_err(|_| column)
}

fn maybe<T: FromStr>(text: Option<&String>, column: &'static str) -> Result<Option<T>, &'static str> {
    text.map(|text| parse(text, column)).transpose()
}

fn number(value: i64, column: &'static str) -> Result<u64, &'static str> {
    u64::try_from(value).map_err(|_| column)
}

fn group<T: FromStr>(groups: &[AuditGroupRow], name: &str) -> Result<Option<T>, &'static str> {
    let row = groups.iter().find(|group| group.name == name);
    row.map(|group| parse(&group.group_hash, "artifact_groups.group_hash")).transpose()
}

/// What is there of a file. All hashes of an artifact come from one reading, unless that reading fails.
fn presence(row: &AuditFileRow, blobs: &LocalBlobs, tier: Tier, verified: Option<&Verified>) -> Presence {
    let Some(key) = row.blob_key.as_deref().and_then(BlobKey::parse) else { return Presence::Missing };
    if row.damaged_at.is_some() {
        return Presence::Damaged;
    }
    if let Some(file) = verified.and_then(|verified| verified.files().iter().find(|file| file.name == row.name)) {
        return Presence::Hashed(file.len, file.digest);
    }
    let found = match tier {
        Tier::Quick | Tier::Full => blobs.size(&key).map(Presence::Size),
        Tier::Deep => blobs.read(&key).and_then(|file| {
            let size = file.metadata()?.len();
            Ok(Presence::Hashed(size, digest_of(&file)?))
        }),
    };
    found.unwrap_or(Presence::Missing)
}

/// Every hash of an artifact, recomputed from its stored bytes; `None` when they are no artifact.
fn verified(row: &AuditRow, files: &[AuditFileRow], blobs: &LocalBlobs) -> Option<Verified> {
    let open = |file: &AuditFileRow| blobs.read(&file.blob_key.as_deref().and_then(BlobKey::parse)?).ok();
    let files = files.iter().map(open).collect::<Option<Vec<_>>>()?;
    recompute(row.header.as_deref()?, &files).ok()
}

/// True when H1 and each H2 are what the rows say.
fn agrees(verified: &Verified, expected: ContentHash, groups: &[AuditGroupRow]) -> bool {
    let told = groups.iter().map(|group| group.group_hash.clone());
    verified.content_hash() == expected && told.eq(verified.groups().iter().map(|group| group.digest.to_string()))
}
