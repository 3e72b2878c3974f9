//! `cairn document`: documents of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::document::read_small;
use crate::client::error::Error;
use crate::client::progress::Progress;
use crate::client::run::RemoteRun;
use clap::{Args, Subcommand};

use super::report::{self, Failure, Report};
use super::{Common, Patience};

/// The longest document that is worth offering; the registry's own limit is lower.
const LARGEST: u64 = 64 << 20;

/// Give documents of a run to the registry
#[derive(Subcommand)]
pub(super) enum Document {
    Put(Put),
    CommitDataset(CommitDataset),
}

/// Let the registry keep a document, byte by byte
#[derive(Args)]
#[command(after_help = "Example:\n  cairn document put warm run-manifest run_manifest.json")]
pub(super) struct Put {
    /// The run
    run: String,
    /// Its kind: run-manifest, eval-report, frame-drift-report, …
    kind: String,
    /// The document
    file: PathBuf,
    #[command(flatten)]
    patience: Patience,
}

/// Bind a participant to a data set
#[derive(Args)]
#[command(after_help = "Example:\n  cairn document commit-dataset warm silo-1 commitment.json")]
pub(super) struct CommitDataset {
    /// The run
    run: String,
    /// The participant
    participant: String,
    /// Its DatasetCommitment
    file: PathBuf,
    /// The first round that it holds for [default: the open one]
    #[arg(long, value_name = "N")]
    from_round: Option<u64>,
    #[command(flatten)]
    patience: Patience,
}

impl Document {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        match self {
            Self::Put(command) => command.run(common, progress).await,
            Self::CommitDataset(command) => command.run(common, progress).await,
        }
    }
}

impl Put {
    async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let run = RemoteRun::new(&server, &self.run, progress)?;
        let (document, created) = run.keep_document(&self.kind, read(&self.file)?).await?;
        let text = format!("{}  {}", document.digest, document.kind);
        Ok(Report { json: report::with_created(document, created), text, notes: note(created), exit: 0 })
    }
}

impl CommitDataset {
    async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let run = RemoteRun::new(&server, &self.run, progress)?;
        let body = read(&self.file)?;
        let (commitment, created) = run.commit_dataset(&self.participant, body, self.from_round).await?;
        let text = format!(
            "{}  {} from round {} on",
            commitment.merkle_root,
            report::plain(&commitment.participant),
            commitment.from_round
        );
        Ok(Report { json: report::with_created(commitment, created), text, notes: note(created), exit: 0 })
    }
}

/// A file that cannot be read is no verdict about anything.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    read_small(path, LARGEST)
}

fn note(created: bool) -> Vec<String> {
    if created { Vec::new() } else { vec!["the registry has it already".to_owned()] }
}
