//! `cairn run wait`: wait for the next round, as a participant's script does.

use std::sync::Arc;
use std::time::Duration;

use crate::cli::report::{Failure, Report};
use crate::cli::{Common, Patience};
use crate::client::error::{Error, Kind};
use crate::client::progress::Progress;
use crate::client::run::RemoteRun;
use crate::core::error::{DomainError, ErrorCode};
use clap::Args;

/// Wait until a round is committed, and print the new head
#[derive(Args)]
#[command(after_help = "\
Without --after it waits for the round after the one that is the head now. A script that has just finished with a round
names it, so that a round that was committed meanwhile is not missed. When the time is over the exit code is 2.

Example:
  cairn run wait warm --after 12 --timeout 10m && cairn pull warm@latest model --group encoder")]
pub(in crate::cli) struct Wait {
    /// The run
    run: String,
    /// Wait for a round above this one
    #[arg(long, value_name = "T")]
    after: Option<u64>,
    /// How long to wait, such as 90s, 10m or 2h [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    patience: Patience,
}

impl Wait {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let run = RemoteRun::new(&server, &self.run, progress)?;
        let head = run.wait(self.after, self.timeout).await?.ok_or_else(|| {
            let error = DomainError::new(ErrorCode::RegistryTimeout, format!("{} has no newer round yet", run.name()))
                .remedy("Wait again, or ask the coordinator what the round is waiting for.");
            Error::new(Kind::Unavailable, &error)
        })?;
        let hash = head.content_hash.as_deref().unwrap_or_default();
        let text = format!("{hash}  round {}", head.round_index.unwrap_or_default());
        Ok(Report { json: serde_json::to_value(head).unwrap_or_default(), text, notes: Vec::new(), exit: 0 })
    }
}

/// `90s`, `10m`, `2h`, or a bare number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(60 * 60),
        _ => None,
    };
    let seconds = digits.parse::<u32>().ok().zip(unit).map(|(number, unit)| u64::from(number) * unit);
    seconds.map(Duration::from_secs).ok_or_else(|| "write a time such as 90s, 10m or 2h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "m", "-1s", "1.5h", "10 m", "1d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
