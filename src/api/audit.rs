//! What an audit looks like from outside; the server and the client draw the same one up.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The report of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// The run's name.
    pub run: String,
    /// `quick`, `full` or `deep`.
    pub tier: String,
    /// True when nothing contradicts the history.
    pub ok: bool,
    /// Rounds that were looked at.
    pub rounds: u64,
    /// Ledger records that were looked at.
    pub records: u64,
    /// What was found, a thousand findings at most.
    pub findings: Vec<Finding>,
    /// Failures, listed or not.
    pub failures: u64,
    /// Warnings, listed or not.
    pub warnings: u64,
    /// What was verified, in a line.
    pub integrity: String,
    /// Who says so and what was not looked at, in a line.
    pub assurance: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// What was found.
    pub code: String,
    /// `failure`, `warning` or `information`.
    pub severity: String,
    /// What the code means.
    pub message: String,
    /// Which of the many places.
    pub place: String,
    /// The round it belongs to, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_index: Option<u64>,
    /// What should be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

impl Audit {
    /// Draws up a report.
    #[must_use]
    pub fn new(run: &str, tier: crate::core::audit::Tier, report: &crate::core::audit::Report, by: &str) -> Self {
        let looked = match tier.as_str() {
            "deep" => "every stored byte hashed again",
            "full" => "stored bytes not hashed again (tier full)",
            _ => "sizes and bytes of stored files not looked at (tier quick)",
        };
        Self {
            run: run.to_owned(),
            tier: tier.as_str().to_owned(),
            ok: report.ok(),
            rounds: report.rounds,
            records: report.records,
            findings: report.findings.iter().map(Finding::new).collect(),
            failures: report.failures,
            warnings: report.warnings,
            integrity: report.integrity(run),
            assurance: format!("{by}; no transparency log, no witnesses; {looked}"),
        }
    }
}

impl Finding {
    fn new(finding: &crate::core::audit::Finding) -> Self {
        Self {
            code: finding.code.as_str().to_owned(),
            severity: finding.code.severity().as_str().to_owned(),
            message: finding.code.meaning().to_owned(),
            place: finding.place.clone(),
            round_index: finding.round_index,
            expected: finding.expected.clone(),
            found: finding.found.clone(),
        }
    }
}
