//! `cairn run list`: the runs of a registry.

use std::sync::Arc;

use crate::cli::report::{Failure, Report, short};
use crate::cli::{Common, Patience};
use crate::client::progress::Progress;
use crate::client::run::list;
use clap::Args;
use serde_json::json;

/// List the runs of the registry, newest first
#[derive(Args)]
#[command(after_help = "Example:\n  cairn run list --json")]
pub(in crate::cli) struct List {
    #[command(flatten)]
    patience: Patience,
}

impl List {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let runs = list(&server, progress).await?;
        let widest = runs.iter().map(|run| run.run.len()).max().unwrap_or(0);
        let lines: Vec<String> = runs
            .iter()
            .map(|run| {
                let head = match (run.head_round, &run.head_hash) {
                    (Some(round), Some(hash)) => format!("round {round:<5} {}", short(hash)),
                    _ => "no round yet".to_owned(),
                };
                format!("{:widest$}  {head:24}  {}", run.run, run.consortium)
            })
            .collect();
        let text = if lines.is_empty() { "no runs".to_owned() } else { lines.join("\n") };
        Ok(Report { json: json!({"runs": runs}), text, notes: Vec::new(), exit: 0 })
    }
}
