//! `cairn run abort`: give up the training of a round.

use std::sync::Arc;

use crate::api::run::NewAbort;
use crate::cli::report::{Failure, Report};
use crate::cli::{Common, Patience};
use crate::client::progress::Progress;
use crate::client::run::RemoteRun;
use clap::Args;

/// Give up the training of the open round; the head stays, and the round can be tried again
#[derive(Args)]
#[command(after_help = "\
Open uploads for the round after it are dropped. Each call gives up one attempt.

Example:
  cairn run abort warm --round 12 --reason aggregation_failed --detail 'two silos were away'")]
pub(in crate::cli) struct Abort {
    /// The run
    run: String,
    /// The round whose training is given up: the head's
    #[arg(long, value_name = "T")]
    round: u64,
    /// Why, as one of the error codes
    #[arg(long, value_name = "CODE")]
    reason: String,
    /// Why, in words
    #[arg(long, value_name = "TEXT")]
    detail: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

impl Abort {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let run = RemoteRun::new(&server, &self.run, progress)?;
        let wanted = NewAbort { round_index: self.round, reason_code: self.reason, detail: self.detail };
        let abort = run.abort(&wanted).await?;
        let text = format!("round {} of {}: attempt {} given up", abort.round_index, run.name(), abort.attempt);
        Ok(Report { json: serde_json::to_value(abort).unwrap_or_default(), text, notes: Vec::new(), exit: 0 })
    }
}
