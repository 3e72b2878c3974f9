//! `cairn log`: the rounds of a run, newest first, drawn as the line that they are.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::Arc;

use crate::api::run::{Abort, Round};
use crate::client::progress::Progress;
use crate::client::run::RemoteRun;
use clap::Args;
use indicatif::BinaryBytes;
use serde_json::{Value, json};

use super::report::{self, Failure, Report, plain, short};
use super::{Common, Patience, when};

/// Show the rounds of a run, newest first
#[derive(Args)]
#[command(after_help = "\
●  a committed round: its index, hash, parent, time, size, and how many took part in the round that made it
○  an attempt at training a round that was given up, above the round it began with

Example:
  cairn log warm --limit 10")]
pub(super) struct Log {
    /// The run
    run: String,
    /// Only the newest rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    patience: Patience,
}

impl Log {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let run = RemoteRun::new(&server, &self.run, progress)?;
        let most = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let rounds = run.rounds(most).await?;
        let oldest = rounds.last().map_or(0, |round| round.round_index);
        let aborts = run.aborts(oldest).await?;
        // How many took part is worth a glance, not a failure.
        let records =
            if rounds.iter().any(|round| round.record_hash.is_some()) { run.records().await.ok() } else { None };
        let records = records.unwrap_or_default().into_iter();
        let present = records.map(|record| (record.hash().to_string(), record.participants.len())).collect();

        let terminal = std::io::stdout().is_terminal();
        let look = Look {
            colours: terminal && !common.json && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            relative: terminal,
        };
        let history = History { rounds: &rounds, aborts: &aborts, present };
        let text = if rounds.is_empty() {
            format!("{} has no round yet", run.name())
        } else {
            history.draw(&look, &|time| if look.relative { when::ago(time, when::now()) } else { plain(time) })
        };
        let json = json!({
            "run": run.name().as_str(),
            "rounds": rounds.iter().map(|round| history.json(round)).collect::<Vec<_>>(),
            "aborts": aborts,
        });
        Ok(Report { json, text, notes: Vec::new(), exit: 0 })
    }
}

/// How it is shown.
struct Look {
    colours: bool,
    relative: bool,
}

impl Look {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const FAINT: &str = "2";

/// What there is to show.
struct History<'a> {
    /// Newest first.
    rounds: &'a [Round],
    /// Newest first.
    aborts: &'a [Abort],
    /// How many took part, by the hash of the record.
    present: HashMap<String, usize>,
}

impl History<'_> {
    fn participants(&self, round: &Round) -> Option<usize> {
        self.present.get(round.record_hash.as_ref()?).copied()
    }

    fn json(&self, round: &Round) -> Value {
        let mut json = serde_json::to_value(round).unwrap_or_default();
        if let Some(count) = self.participants(round) {
            json["participant_count"] = json!(count);
        }
        json
    }

    fn draw(&self, look: &Look, when: &dyn Fn(&str) -> String) -> String {
        let digits = self.rounds.first().map_or(1, |round| round.round_index.to_string().len());
        let times: Vec<String> = self.rounds.iter().map(|round| when(&round.committed_at)).collect();
        let sizes: Vec<String> = self.rounds.iter().map(|round| BinaryBytes(round.size).to_string()).collect();
        let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let (time_width, size_width) = (widest(&times), widest(&sizes));
        let line = look.paint(FAINT, "│");
        let mut out = String::new();
        for (at, round) in self.rounds.iter().enumerate() {
            for abort in self.aborts.iter().filter(|abort| abort.round_index == round.round_index) {
                let detail = abort.detail.as_deref().map_or_else(String::new, |text| format!(": {}", plain(text)));
                // Writing into memory cannot fail.
                let _ = writeln!(
                    out,
                    "{}  {:>digits$}  attempt {} given up, {}\n{line}  {:digits$}  {}{detail}\n{line}",
                    look.paint(RED, "○"),
                    abort.round_index,
                    abort.attempt,
                    when(&abort.aborted_at),
                    "",
                    look.paint(RED, &plain(&abort.reason_code)),
                );
            }
            let parent = round.parent_hash.as_deref().map_or_else(|| "-".to_owned(), short);
            let mut more = Vec::new();
            if let Some(count) = self.participants(round) {
                more.push(report::count(count, "participant"));
            }
            if round.attempt > 1 {
                more.push(format!("attempt {}", round.attempt));
            }
            let row = format!(
                "{}  {:>digits$}  {}  {}  {:time_width$}  {:>size_width$}  {}",
                look.paint(GREEN, "●"),
                round.round_index,
                look.paint(YELLOW, &short(&round.content_hash)),
                look.paint(FAINT, &format!("← {parent:12}")),
                times[at],
                sizes[at],
                more.join(", "),
            );
            let _ = writeln!(out, "{}", row.trim_end());
            match self.rounds.get(at + 1) {
                Some(older) if round.parent_hash.as_ref() != Some(&older.content_hash) => {
                    let broken = "the chain is broken: this is not the parent of the round above";
                    let _ = writeln!(out, "{}  {:digits$}  {broken}", look.paint(RED, "╳"), "");
                }
                Some(_) => {
                    let _ = writeln!(out, "{line}");
                }
                None if round.round_index > 0 => {
                    let _ = writeln!(out, "{}", look.paint(FAINT, "┊"));
                }
                None => {}
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(index: u64, attempt: u64) -> Round {
        let hash = |index: u64| format!("{index:x}").repeat(64);
        Round {
            run: "r".to_owned(),
            round_index: index,
            content_hash: hash(index),
            parent_hash: index.checked_sub(1).map(hash),
            theta_ref: None,
            phi_ref: None,
            size: 2048,
            attempt,
            committed_at: format!("2026-06-11T12:0{index}:00Z"),
            record_hash: (index > 0).then(|| hash(index + 8)),
        }
    }

    fn drawn(rounds: &[Round], aborts: &[Abort], colours: bool) -> String {
        let present = HashMap::from([("a".repeat(64), 3)]);
        let look = Look { colours, relative: false };
        History { rounds, aborts, present }.draw(&look, &str::to_owned)
    }

    #[test]
    fn a_run_is_drawn_as_a_line() {
        let abort = Abort {
            round_index: 1,
            attempt: 1,
            reason_code: "aggregation_failed".to_owned(),
            detail: Some("one silo\u{1b}[2J was away".to_owned()),
            aborted_at: "2026-06-11T12:01:30Z".to_owned(),
        };
        let text = drawn(&[round(2, 2), round(1, 1), round(0, 1)], &[abort], false);
        assert_eq!(
            text,
            "\
●  2  222222222222  ← 111111111111  2026-06-11T12:02:00Z  2.00 KiB  3 participants, attempt 2
│
○  1  attempt 1 given up, 2026-06-11T12:01:30Z
│     aggregation_failed: one silo\u{fffd}[2J was away
│
●  1  111111111111  ← 000000000000  2026-06-11T12:01:00Z  2.00 KiB
│
●  0  000000000000  ← -             2026-06-11T12:00:00Z  2.00 KiB"
        );
        assert!(drawn(&[round(0, 1)], &[], true).contains("\x1b[32m●\x1b[0m"));
    }

    #[test]
    fn a_line_that_goes_on_or_is_broken_looks_so() {
        assert!(drawn(&[round(2, 1)], &[], false).ends_with('┊'));
        let text = drawn(&[round(2, 1), round(0, 1)], &[], false);
        assert!(text.contains("╳") && !text.contains('│'), "{text}");
    }
}
