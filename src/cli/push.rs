//! `cairn push`: send an artifact directory, and commit it as a round.

use std::path::PathBuf;
use std::sync::Arc;

use crate::client::commit::Record;
use crate::client::directory::Directory;
use crate::client::error::Error;
use crate::client::progress::Progress;
use crate::client::push::{Pushed, default_place, push};
use crate::client::run::RemoteRun;
use crate::core::limits::Limits;
use clap::Args;
use indicatif::BinaryBytes;
use serde_json::{Value, json};

use super::report::{self, Failure, Report};
use super::{Common, Patience};

/// Send an artifact directory to the registry and print its content hash
#[derive(Args)]
#[command(after_help = "\
A push that was interrupted or killed continues when the same command is run again; so does a commit, and one that is
done already is a success.

The record that closes the round before is taken from FILE: a ContributionRecord, or the coordinator's whole ledger.

Examples:
  cairn push round-00012 --server https://registry.example
  cairn push round-00012 --run warm --commit --record ledger.jsonl")]
pub(super) struct Push {
    /// The directory: header.json and the weight files that it names
    dir: PathBuf,
    /// The run that it is for
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Commit it as the next round of the run
    #[arg(long, requires = "run")]
    commit: bool,
    /// The contribution record of the round before, which enters the ledger with the commit
    #[arg(long, value_name = "FILE", requires = "commit")]
    record: Option<PathBuf>,
    #[command(flatten)]
    patience: Patience,
}

impl Push {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let (directory, record) = tokio::task::spawn_blocking(move || {
            let directory = Directory::open(&self.dir, Limits::DEFAULT)?;
            let hash = directory.header().content_hash;
            Ok((directory, self.record.map(|path| Record::read(&path, hash)).transpose()?))
        })
        .await
        .map_err(|error| Error::unavailable(format!("the work was not finished: {error}"), "Try again."))
        .flatten()?;
        let run = self.run.as_deref().map(|name| RemoteRun::new(&server, name, progress)).transpose()?;
        if let Some(run) = &run {
            // A mistyped name should not cost an upload.
            run.show().await?;
        }
        let memory = default_place();
        let pushed = push(&server, directory, memory.as_deref(), progress).await?;
        let mut report = report(&pushed);
        let Some(run) = run else { return Ok(report) };
        if !self.commit {
            report.notes.push(format!("no round of {} yet: --commit makes it one", run.name()));
            return Ok(report);
        }
        match run.commit(pushed.verified.header(), record.as_ref()).await {
            Ok((round, created)) => {
                let verb = if created { "committed" } else { "committed before" };
                report.notes.push(format!("{verb} as round {} of {}", round.round_index, run.name()));
                report.json["commit"] = report::with_created(&round, created);
                Ok(report)
            }
            Err(error) => Err(Failure::beside(error, report.json)),
        }
    }
}

fn report(pushed: &Pushed) -> Report {
    let hash = pushed.verified.content_hash();
    let sent = BinaryBytes(pushed.bytes_sent);
    let mut notes = pushed.warnings.clone();
    notes.push(if pushed.created {
        format!("stored; {sent} sent")
    } else if pushed.bytes_sent == 0 {
        "the registry has it already; nothing was sent".to_owned()
    } else {
        format!("the registry has it already; {sent} sent")
    });
    let json: Value = json!({
        "content_hash": hash,
        "created": pushed.created,
        "bytes_sent": pushed.bytes_sent,
        "groups": report::groups(&pushed.verified),
    });
    Report { json, text: hash.to_string(), notes, exit: 0 }
}
