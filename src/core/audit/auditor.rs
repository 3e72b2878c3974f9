//! The machine: rounds oldest first, then commitments, then ledger records, then the end.

use std::collections::BTreeMap;

use super::facts::{ArtifactFacts, CommitmentFacts, FileFacts, LedgerFacts, Presence, RoundFacts, RunFacts};
use super::finding::{AuditCode, Finding, Tier};
use super::news::News;
use super::report::Report;
use crate::core::checkpoint::Links;
use crate::core::digest::{BlobDigest, ContentHash, DatasetRoot, RecordHash};
use crate::core::document::contribution::ContributionRecord;
use crate::core::document::{Document, Kind};

/// An audit under way.
#[derive(Debug)]
pub struct Auditor {
    pub(super) run: RunFacts,
    pub(super) report: Report,
    /// The round before; its hash is `None` when it could not be read.
    last: Option<(u64, Option<ContentHash>)>,
    /// H1 by round: what ledger records and news are held against. A few dozen bytes for each round.
    pub(super) hashes: BTreeMap<u64, ContentHash>,
    pub(super) news: News,
    /// Whether the run has grown since the audit began.
    pub(super) growing: bool,
    /// By participant, then by the first round.
    commitments: BTreeMap<String, BTreeMap<u64, DatasetRoot>>,
    tail: Option<(RecordHash, u64)>,
}

impl Auditor {
    /// Begins an audit.
    #[must_use]
    pub fn new(run: RunFacts) -> Self {
        let report = Report { rounds: 0, records: 0, findings: Vec::new(), failures: 0, warnings: 0 };
        Self {
            run,
            report,
            last: None,
            hashes: BTreeMap::new(),
            news: News::default(),
            growing: false,
            commitments: BTreeMap::new(),
            tail: None,
        }
    }

    /// Adds a finding of somebody who sees what this machine does not.
    pub fn find(&mut self, finding: Finding) {
        self.report.add(finding);
    }

    /// What is read from here on may be newer than the audit.
    pub const fn grows(&mut self) {
        self.growing = true;
    }

    pub(super) fn add(
        &mut self,
        code: AuditCode,
        round: Option<u64>,
        place: &str,
        expected: Option<String>,
        found: Option<String>,
    ) {
        self.find(Finding { code, round_index: round, expected, found, place: place.to_owned() });
    }

    /// A finding when two values differ.
    fn same<T: PartialEq + ToString>(
        &mut self,
        code: AuditCode,
        round: u64,
        place: &str,
        (expected, found): (Option<T>, Option<T>),
    ) {
        if expected != found {
            let text = |value: Option<T>| value.map(|value| value.to_string());
            self.add(code, Some(round), place, text(expected), text(found));
        }
    }

    /// The next round.
    pub fn round(&mut self, facts: &RoundFacts) {
        let index = facts.round_index;
        self.report.rounds += 1;
        self.chain(facts);
        match &facts.header {
            None => self.add(AuditCode::BlobMissing, Some(index), "header.json", None, None),
            Some((digest, links)) => self.header(facts, *digest, links.as_ref()),
        }
        match &facts.artifact {
            None => {
                self.add(AuditCode::BlobMissing, Some(index), "artifact", Some(facts.content_hash.to_string()), None);
            }
            Some(artifact) => self.artifact(facts, artifact),
        }
        if facts.attempt != facts.aborts + 1 {
            let (expected, found) = (Some(facts.aborts + 1), Some(facts.attempt));
            self.same(AuditCode::StateDiverges, index, "attempt", (expected, found));
        } else if facts.attempt > 1 {
            self.add(AuditCode::RoundRerun, Some(index), "attempt", None, Some(facts.attempt.to_string()));
        }
        self.last = Some((index, Some(facts.content_hash)));
        self.hashes.insert(index, facts.content_hash);
        self.news.expect(&self.run.pins, facts);
    }

    fn chain(&mut self, facts: &RoundFacts) {
        let index = facts.round_index;
        match self.last {
            None if index != 0 || facts.parent_hash.is_some() => {
                let found = facts.parent_hash.map(|hash| hash.to_string());
                self.add(AuditCode::LineageNoGenesis, Some(index), "round 0", None, found);
            }
            Some((before, _)) if before.checked_add(1) != Some(index) => {
                self.same(AuditCode::RoundReordered, index, "round index", (before.checked_add(1), Some(index)));
            }
            Some((_, hash)) if facts.parent_hash.is_none() => {
                self.add(AuditCode::ParentOrphan, Some(index), "parent", hash.map(|hash| hash.to_string()), None);
            }
            Some((_, Some(hash))) if facts.parent_hash != Some(hash) => {
                let elsewhere = self.hashes.values().any(|known| Some(*known) == facts.parent_hash);
                let code = if elsewhere { AuditCode::RunForkUndeclared } else { AuditCode::ParentContentMismatch };
                self.same(code, index, "parent of the round", (Some(hash), facts.parent_hash));
            }
            None | Some(_) => {}
        }
    }

    /// A round that cannot be read as one.
    pub fn unreadable_round(&mut self, index: Option<u64>, place: &str) {
        self.report.rounds += 1;
        self.add(AuditCode::EntryMalformed, index, place, None, None);
        if let Some(index) = index.or_else(|| self.last.map(|(before, _)| before + 1)) {
            self.last = Some((index, None));
        }
    }

    fn header(&mut self, facts: &RoundFacts, digest: BlobDigest, links: Option<&Links>) {
        let index = facts.round_index;
        if facts.header_digest.is_some() {
            self.same(AuditCode::BlobHashMismatch, index, "header.json", (facts.header_digest, Some(digest)));
        }
        let Some(links) = links else {
            return self.add(AuditCode::EntryMalformed, Some(index), "header.json", None, None);
        };
        let hash = (Some(facts.content_hash), Some(links.content_hash));
        self.same(AuditCode::StateDiverges, index, "content hash in header.json", hash);
        let parent = (facts.parent_hash, links.parent_hash);
        self.same(AuditCode::ParentContentMismatch, index, "parent in header.json", parent);
        self.same(AuditCode::RoundReordered, index, "round in header.json", (Some(index), Some(links.round_index)));
        let pins = self.run.pins.clone();
        let wmcp = (Some(pins.wmcp_version), Some(links.wmcp_version.clone()));
        self.same(AuditCode::StateDiverges, index, "wmcp_version against the pin", wmcp);
        if pins.config_hash.is_some() {
            let config = (pins.config_hash, Some(links.config_hash));
            self.same(AuditCode::StateDiverges, index, "config_hash against the pin", config);
        }
    }

    fn artifact(&mut self, facts: &RoundFacts, artifact: &ArtifactFacts) {
        let index = facts.round_index;
        let code = AuditCode::StateDiverges;
        self.same(code, index, "round beside the artifact", (Some(index), Some(artifact.round_index)));
        self.same(code, index, "parent beside the artifact", (facts.parent_hash, artifact.parent_hash));
        if facts.header_digest.is_some() && artifact.header_digest.is_some() {
            let digests = (facts.header_digest, artifact.header_digest);
            self.same(code, index, "digest of the header beside the artifact", digests);
        }
        self.same(code, index, "size beside the artifact", (Some(facts.size), Some(artifact.size)));
        self.same(code, index, "encoder beside the artifact", (facts.theta, artifact.theta));
        self.same(code, index, "predictor beside the artifact", (facts.phi, artifact.phi));
        if index == 0
            && let Some(pin) = &self.run.pins.warm_start
        {
            let encoder = (Some(pin.encoder_group_hash), facts.theta);
            self.same(code, index, "encoder against the warm-start pin", encoder);
        }
        if artifact.files.is_empty() {
            self.add(AuditCode::BlobMissing, Some(index), "list of files", None, None);
        } else {
            let total = artifact.files.iter().map(|file| file.size).sum();
            self.same(code, index, "sizes of the files", (Some(facts.size), Some(total)));
        }
        for file in &artifact.files {
            self.file(index, file);
        }
        for other in &artifact.diverging {
            let (expected, found) = (Some(other.expected.clone()), Some(other.found.clone()));
            self.add(code, Some(index), other.place, expected, found);
        }
        if artifact.recomputed == Some(false) {
            let expected = Some(facts.content_hash.to_string());
            self.add(AuditCode::BlobHashMismatch, Some(index), "hashes recomputed from the bytes", expected, None);
        }
    }

    fn file(&mut self, index: u64, file: &FileFacts) {
        let expected = Some(file.digest.to_string());
        match file.presence {
            Presence::Unknown => {}
            Presence::Missing => self.add(AuditCode::BlobMissing, Some(index), &file.name, expected, None),
            Presence::Damaged => self.add(AuditCode::BlobHashMismatch, Some(index), &file.name, expected, None),
            Presence::Size(size) => self.size(index, file, size),
            Presence::Hashed(size, digest) => {
                self.size(index, file, size);
                self.same(AuditCode::BlobHashMismatch, index, &file.name, (Some(file.digest), Some(digest)));
            }
        }
    }

    fn size(&mut self, index: u64, file: &FileFacts, found: u64) {
        if self.run.tier >= Tier::Full {
            self.same(AuditCode::BlobSizeMismatch, index, &file.name, (Some(file.size), Some(found)));
        }
    }

    /// The next commitment, in any order; all of them come before the first record.
    pub fn commitment(&mut self, facts: &CommitmentFacts) {
        let round = Some(facts.from_round);
        let place = format!("commitment of {}", facts.participant);
        match &facts.document {
            None => self.add(AuditCode::BlobMissing, round, &place, Some(facts.digest.to_string()), None),
            Some(text) => {
                let digest = BlobDigest::of(text);
                let pair = (Some(facts.digest), Some(digest));
                self.same(AuditCode::BlobHashMismatch, facts.from_round, &place, pair);
                match Document::decode(Kind::DatasetCommitment, text) {
                    Ok(Document::DatasetCommitment(said)) => {
                        let roots = (Some(said.merkle_root), Some(facts.root));
                        self.same(AuditCode::StateDiverges, facts.from_round, &place, roots);
                    }
                    _ => self.add(AuditCode::EntryMalformed, round, &place, None, None),
                }
            }
        }
        if !self.declared(&facts.participant) {
            self.add(AuditCode::StateDiverges, round, &place, Some("a declared participant".to_owned()), None);
        }
        self.commitment_is_told(facts, &place);
        let held = self.commitments.entry(facts.participant.clone()).or_default();
        held.insert(facts.from_round, facts.root);
    }

    fn declared(&self, participant: &str) -> bool {
        let declared = &self.run.pins.participants;
        declared.is_empty() || declared.iter().any(|name| name == participant)
    }

    /// The next line of the ledger.
    pub fn record(&mut self, facts: &LedgerFacts) {
        self.report.records += 1;
        let place = format!("ledger record {}", self.report.records);
        let Ok(record) = ContributionRecord::parse(facts.line.as_bytes()) else {
            return self.add(AuditCode::EntryMalformed, facts.round_index, &place, None, None);
        };
        let (hash, round) = (record.hash(), record.round_index);
        let code = AuditCode::LedgerChainBroken;
        if let Some(claimed) = &facts.record_hash {
            self.same(code, round, &place, (Some(claimed.clone()), Some(hash.to_string())));
        }
        let prev = record.prev_record_hash.map(|prev| prev.to_string());
        if let Some(claimed) = &facts.prev_record_hash {
            self.same(code, round, &place, (claimed.clone(), prev));
        }
        if facts.round_index.is_some() {
            self.same(code, round, &place, (facts.round_index, Some(round)));
        }
        if let Some(claimed) = &facts.global_model_hash {
            let pair = (Some(claimed.clone()), Some(record.global_model_hash.to_string()));
            self.same(AuditCode::RoundContributionsMismatch, round, &place, pair);
        }
        if record.follows(self.tail.as_ref().map(|(hash, round)| (hash, *round))).is_err() {
            let expected = self.tail.map(|(hash, _)| hash.to_string());
            self.add(code, Some(round), &place, expected, record.prev_record_hash.map(|prev| prev.to_string()));
        }
        self.record_is_told(round, &hash.to_string(), &place);
        let made = round.checked_add(1).and_then(|next| self.hashes.get(&next)).copied();
        let pair = (made, Some(record.global_model_hash));
        self.same(AuditCode::RoundContributionsMismatch, round, &place, pair);
        for (participant, root) in &record.dataset_roots {
            let held = self.commitments.get(participant).and_then(|held| held.range(..=round).next_back());
            let pair = (held.map(|(_, root)| *root), Some(*root));
            let place = format!("data-set root of {participant}");
            self.same(AuditCode::RoundContributionsMismatch, round, &place, pair);
        }
        for participant in record.participants.iter().filter(|name| !self.declared(name)).cloned().collect::<Vec<_>>() {
            let place = format!("contributor {participant}");
            self.add(AuditCode::RoundContributionsMismatch, Some(round), &place, None, Some(participant));
        }
        let present = record.participants.len() as u64;
        if let Some(minimum) = self.run.pins.min_participants.filter(|minimum| present < *minimum) {
            let pair = (Some(minimum), Some(present));
            self.same(AuditCode::RoundContributionsMismatch, round, "number of contributors", pair);
        }
        self.tail = Some((hash, round));
    }

    /// The end: head, tail, and what was not looked at.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let text = |at: Option<(u64, ContentHash)>| at.map(|(round, hash)| format!("round {round}, {hash}"));
        let newest = self.last.and_then(|(round, hash)| Some((round, hash?)));
        if self.run.head != newest {
            let (expected, found) = (text(newest), text(self.run.head));
            self.add(AuditCode::HeadMismatch, None, "head", expected, found);
        }
        let tail = self.tail.map(|(hash, _)| hash);
        let last = self.tail.map(|(_, round)| round);
        if self.run.ledger_round != last {
            let (expected, found) =
                (last.map(|round| round.to_string()), self.run.ledger_round.map(|round| round.to_string()));
            self.add(AuditCode::LedgerChainBroken, None, "round of the last record", expected, found);
        }
        if self.run.ledger_tail != tail || self.run.ledger_count != self.report.records {
            let end = |hash: Option<RecordHash>, count: u64| {
                Some(format!("{count} records, {}", hash.map_or_else(|| "none".to_owned(), |hash| hash.to_string())))
            };
            let expected = end(self.run.ledger_tail, self.run.ledger_count);
            let found = end(tail, self.report.records);
            self.add(AuditCode::LedgerChainBroken, None, "end of the ledger", expected, found);
        }
        self.events_end();
        let changed: Vec<_> = self
            .commitments
            .iter()
            .filter(|(_, held)| held.values().collect::<std::collections::BTreeSet<_>>().len() > 1)
            .map(|(participant, held)| (participant.clone(), held.keys().next_back().copied()))
            .collect();
        for (participant, round) in changed {
            self.add(AuditCode::DatasetRootChanged, round, &format!("commitment of {participant}"), None, None);
        }
        let unchecked = match self.run.tier {
            Tier::Quick => Some("sizes and bytes of stored files"),
            Tier::Full => Some("bytes of stored files"),
            Tier::Deep => None,
        };
        if let Some(place) = unchecked {
            self.add(AuditCode::NotChecked, None, place, None, None);
        }
        self.add(AuditCode::NotChecked, None, "transparency log and witnesses: this run has none", None, None);
        self.report
    }
}
