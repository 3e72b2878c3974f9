//! `cairn audit`: the history of a run, checked here.

use std::io::IsTerminal;
use std::sync::Arc;

use crate::api::audit::{Audit as Outcome, Finding};
use crate::client::audit::audit;
use crate::client::progress::Progress;
use crate::core::audit::Tier;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::report::{Failure, Report, plain};
use super::{Common, Patience};

/// How the program ends with `--strict` when there are only warnings.
const ONLY_WARNINGS: u8 = 3;

/// Check the history of a run from its head to round 0
#[derive(Args)]
#[command(after_help = "\
Everything is computed here from what the server sends; its own opinion is not asked for.

Exit codes: 0 nothing contradicts the history, 1 something does, 2 it could not be checked, 3 with --strict when there
are only warnings.

Examples:
  cairn audit warm
  cairn audit warm --tier deep --json")]
pub(super) struct Audit {
    /// The run
    run: String,
    /// How much is looked at
    #[arg(long, value_enum, default_value_t = Depth::Quick)]
    tier: Depth,
    /// End with 3 when there are only warnings
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Clone, Copy, ValueEnum)]
enum Depth {
    /// Chain, pins, ledger and commitments, and that every file is there
    Quick,
    /// Also the size of every file
    Full,
    /// Also every byte, which is downloaded for that
    Deep,
}

impl Audit {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let tier = match self.tier {
            Depth::Quick => Tier::Quick,
            Depth::Full => Tier::Full,
            Depth::Deep => Tier::Deep,
        };
        let outcome = audit(&server, &self.run, tier, progress).await.map_err(Failure::unchecked)?;
        let exit = match (outcome.failures, outcome.warnings) {
            (0, 0) => 0,
            (0, _) if self.strict => ONLY_WARNINGS,
            (0, _) => 0,
            _ => 1,
        };
        let text = text(&outcome, std::io::stdout().is_terminal() && !common.json);
        Ok(Report { json: json!(outcome), text, notes: Vec::new(), exit })
    }
}

/// The findings, the gravest first, and the two lines that matter.
fn text(outcome: &Outcome, colours: bool) -> String {
    let paint = |code: &str, text: &str| if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let mut lines = Vec::new();
    for (severity, mark, colour) in [("failure", "✗", "31"), ("warning", "!", "33"), ("information", "·", "2")] {
        for finding in outcome.findings.iter().filter(|finding| finding.severity == severity) {
            lines.push(format!("{} {}", paint(colour, mark), line(finding)));
            for (what, value) in [("expected", &finding.expected), ("found", &finding.found)] {
                if let (Some(value), "failure") = (value, severity) {
                    lines.push(format!("    {what:8}  {}", plain(value)));
                }
            }
        }
    }
    let listed = outcome.findings.iter().filter(|finding| finding.severity != "information").count() as u64;
    if listed < outcome.failures + outcome.warnings {
        lines.push(format!("  … and {} more", outcome.failures + outcome.warnings - listed));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    let colour = if outcome.ok { "32" } else { "31" };
    lines.push(format!("Integrity: {}", paint(colour, &plain(&outcome.integrity))));
    lines.push(format!("Assurance: {}", outcome.assurance));
    lines.join("\n")
}

fn line(finding: &Finding) -> String {
    let round = finding.round_index.map_or_else(String::new, |round| format!(" round {round}:"));
    // A participant chooses its name, and so a part of the place.
    format!("{:28}{round} {} ({})", finding.code, plain(&finding.place), finding.message)
}
