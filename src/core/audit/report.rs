//! What an audit came to.

use super::finding::{AuditCode, Finding, Severity};

/// Findings that a report lists; the rest is counted.
const LISTED: usize = 1000;

/// What an audit came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Rounds that were looked at.
    pub rounds: u64,
    /// Ledger records that were looked at.
    pub records: u64,
    /// The findings, a thousand at most, the gravest kept.
    pub findings: Vec<Finding>,
    /// Failures, listed or not.
    pub failures: u64,
    /// Warnings, listed or not.
    pub warnings: u64,
}

impl Report {
    /// The report of an audit that could not begin: nothing else can be held against what cannot be read.
    #[must_use]
    pub fn unreadable(place: &str) -> Self {
        let code = AuditCode::EntryMalformed;
        let finding = Finding { code, round_index: None, expected: None, found: None, place: place.to_owned() };
        Self { rounds: 0, records: 0, findings: vec![finding], failures: 1, warnings: 0 }
    }

    /// Takes one more finding.
    pub(super) fn add(&mut self, finding: Finding) {
        match finding.code.severity() {
            Severity::Failure => self.failures += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Information => {}
        }
        if self.findings.len() < LISTED {
            self.findings.push(finding);
        } else if finding.code.severity() == Severity::Failure
            && let Some(lesser) = self.findings.iter_mut().rev().find(|kept| kept.code.severity() != Severity::Failure)
        {
            *lesser = finding;
        }
    }

    /// True when nothing contradicts the history.
    #[must_use]
    pub const fn ok(&self) -> bool {
        self.failures == 0
    }

    /// The line that says what was verified.
    #[must_use]
    pub fn integrity(&self, run: &str) -> String {
        let span = match self.rounds {
            0 => "no rounds".to_owned(),
            1 => "round 0".to_owned(),
            rounds => format!("rounds 0-{}", rounds - 1),
        };
        if self.ok() {
            return format!("VERIFIED (run {run}, {span}, {} ledger records)", self.records);
        }
        let failures = if self.failures == 1 { "1 failure".to_owned() } else { format!("{} failures", self.failures) };
        let first = self.findings.iter().find(|finding| finding.code.severity() == Severity::Failure);
        let first = first.map_or_else(String::new, |finding| format!("; first: {} at {}", finding.code, finding.place));
        format!("FAILED ({failures} in run {run}{first})")
    }
}
