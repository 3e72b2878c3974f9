//! The part of the machine that reads events: each tells of a row, and each row was told of.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::auditor::Auditor;
use super::facts::{CommitmentFacts, EventFacts, RoundFacts};
use super::finding::AuditCode;
use crate::core::digest::{ContentHash, GroupHash};
use crate::core::locator::mint;
use crate::core::run::Pins;

/// The entry of a commit's news that is held against the ledger instead of the round.
const RECORD: &str = "record_hash";

/// What the events have told so far.
#[derive(Debug, Default)]
pub(super) struct News {
    /// What each commit must have told, and when.
    rounds: BTreeMap<u64, (Value, i64)>,
    /// Commits so far.
    pub commits: u64,
    /// The number of the last event.
    pub last: u64,
    /// Aborts that were told of and are there.
    aborts: u64,
    /// Commitments that were told of and not seen yet: participant, first round, digest of the document.
    commitments: BTreeMap<(String, u64, String), i64>,
    /// The ledger record of each commit, by the round that the record belongs to.
    records: BTreeMap<u64, Option<String>>,
}

impl News {
    /// Keeps what the news of a round's commit must say.
    pub(super) fn expect(&mut self, pins: &Pins, round: &RoundFacts) {
        let Some(at) = round.committed_at else { return };
        let reference = |hash: Option<GroupHash>, group| {
            let locator = mint(&pins.consortium, &pins.run, round.round_index, group);
            hash.map(|hash| json!({"content_hash": hash.to_string(), "locator": locator}))
        };
        let told = json!({
            "run": pins.run.as_str(),
            "round_index": round.round_index,
            "content_hash": round.content_hash.to_string(),
            "parent_hash": round.parent_hash.map(|hash| hash.to_string()),
            "theta_ref": reference(round.theta, "encoder"),
            "phi_ref": reference(round.phi, "predictor"),
            "attempt": round.attempt,
        });
        self.rounds.insert(round.round_index, (told, at));
    }
}

impl Auditor {
    /// The next piece of news, oldest first: none is missing, and each says what its row says.
    pub fn event(&mut self, facts: &EventFacts) {
        let place = format!("event {}", facts.seq);
        let before = std::mem::replace(&mut self.news.last, facts.seq);
        if before.checked_add(1) != Some(facts.seq) {
            let (expected, found) = (Some(before.saturating_add(1).to_string()), Some(facts.seq.to_string()));
            self.add(AuditCode::StateDiverges, None, &place, expected, found);
        }
        let Ok(data) = serde_json::from_str::<Value>(&facts.data) else {
            return self.add(AuditCode::EntryMalformed, None, &place, None, None);
        };
        match facts.kind.as_str() {
            "checkpoint.committed" => {
                self.news.commits += 1;
                let index = data["round_index"].as_u64();
                let expected = index.and_then(|index| self.news.rounds.get(&index)).cloned();
                if let Some(trained) = index.and_then(|index| index.checked_sub(1)) {
                    let record = data[RECORD].as_str().map(str::to_owned);
                    self.news.records.insert(trained, record);
                }
                self.tells(&place, facts, &data, expected);
            }
            "round.close" => {
                let index = data["round_index"].as_u64();
                let held = index.and_then(|index| self.hashes.get(&index.checked_add(1)?)).map(ContentHash::to_string);
                let found = data["global_model_hash"].as_str().map(str::to_owned);
                if held.is_none() || held != found {
                    self.add(AuditCode::StateDiverges, index, &place, held, found);
                }
                let made = index.and_then(|index| self.news.rounds.get(&index.checked_add(1)?));
                if let Some(at) = made.map(|(_, at)| *at) {
                    self.same_time(&place, index, (facts.at, at));
                }
            }
            "round.aborted" => {
                self.news.aborts += u64::from(facts.abort.is_some());
                self.tells(&place, facts, &data, facts.abort.clone());
            }
            "dataset.committed" => {
                let (from, text) = (data["from_round"].as_u64(), |key: &str| data[key].as_str().map(str::to_owned));
                match (text("participant"), from, text("digest")) {
                    (Some(participant), Some(from), Some(digest)) => {
                        self.news.commitments.insert((participant, from, digest), facts.at);
                    }
                    _ => self.add(AuditCode::EntryMalformed, None, &place, None, None),
                }
                // The document may have come before, for another round or participant.
                if facts.document.is_some() {
                    self.tells(&place, facts, &data, facts.document.clone());
                }
            }
            "document.added" | "probe.verified" => self.tells(&place, facts, &data, facts.document.clone()),
            _ => self.add(AuditCode::EntryMalformed, None, &place, None, Some(facts.kind.clone())),
        }
    }

    /// Holds what an event tells against what it must tell, and its time against the row's.
    fn tells(&mut self, place: &str, facts: &EventFacts, data: &Value, expected: Option<(Value, i64)>) {
        let Some((expected, at)) = expected else {
            return self.add(AuditCode::StateDiverges, None, place, None, Some("news of nothing".to_owned()));
        };
        let round = expected["round_index"].as_u64();
        for (key, value) in expected.as_object().into_iter().flatten() {
            if data[key] != *value {
                let place = format!("{place}, {key}");
                self.add(AuditCode::StateDiverges, round, &place, Some(value.to_string()), Some(data[key].to_string()));
            }
        }
        self.same_time(place, round, (facts.at, at));
    }

    /// What an event and its row say of when it was.
    fn same_time(&mut self, place: &str, round: Option<u64>, (told, at): (i64, i64)) {
        if told != at {
            let place = format!("{place}, time");
            self.add(AuditCode::StateDiverges, round, &place, Some(told.to_string()), Some(at.to_string()));
        }
    }

    /// A commitment was told of; one that was not is a finding, unless it may have come since the audit began.
    pub(super) fn commitment_is_told(&mut self, facts: &CommitmentFacts, place: &str) {
        let key = (facts.participant.clone(), facts.from_round, facts.digest.to_string());
        let round = Some(facts.from_round);
        match (self.news.commitments.remove(&key), facts.received_at) {
            (Some(told), Some(at)) => self.same_time(place, round, (told, at)),
            (None, _) if self.run.event_seq.is_some() && !self.growing => {
                self.add(AuditCode::StateDiverges, round, &format!("{place}, in the events"), None, None);
            }
            _ => {}
        }
    }

    /// A ledger record is the one that its commit told of.
    pub(super) fn record_is_told(&mut self, round: u64, hash: &str, place: &str) {
        if let Some(told) = self.news.records.remove(&round)
            && told.as_deref() != Some(hash)
        {
            self.add(AuditCode::LedgerChainBroken, Some(round), place, told, Some(hash.to_owned()));
        }
    }

    /// What the events told of and was not there, and what they did not tell of.
    pub(super) fn events_end(&mut self) {
        let Some(seq) = self.run.event_seq else { return };
        let expected = format!("{} commits, {} aborts, {seq} events", self.report.rounds, self.run.aborts);
        let found = format!("{} commits, {} aborts, {} events", self.news.commits, self.news.aborts, self.news.last);
        if expected != found {
            self.add(AuditCode::StateDiverges, None, "events", Some(expected), Some(found));
        }
        for ((participant, from, digest), _) in std::mem::take(&mut self.news.commitments) {
            let place = format!("commitment of {participant}");
            self.add(AuditCode::BlobMissing, Some(from), &place, Some(digest), None);
        }
        for (round, told) in std::mem::take(&mut self.news.records) {
            if told.is_some() {
                self.add(AuditCode::LedgerChainBroken, Some(round), "ledger record of the round", told, None);
            }
        }
    }
}
