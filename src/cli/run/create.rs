//! `cairn run create`: register a run with its pins.

use std::path::PathBuf;
use std::sync::Arc;

use crate::api::run::{NewRun, WarmStart};
use crate::cli::document::read;
use crate::cli::report::{self, Failure, Report};
use crate::cli::{Common, Patience};
use crate::client::progress::Progress;
use crate::client::run::{create, registration};
use clap::Args;

/// Register a run; its pins never change
#[derive(Args)]
#[command(after_help = "\
Repeating it with the same pins is harmless; other pins under the same name are refused.

Examples:
  cairn run create warm --consortium acme --wmcp wmcp-1.0.0
  cairn run create warm --consortium acme --wmcp wmcp-1.0.0 --participant silo-1 --participant silo-2
  cairn run create --file run.json")]
pub(in crate::cli) struct Create {
    /// Its name: 1 to 128 of A-Z a-z 0-9 . _ -
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// The consortium that trains
    #[arg(long, value_name = "C", required_unless_present = "file")]
    consortium: Option<String>,
    /// The contract version of every checkpoint and document, such as wmcp-1.0.0
    #[arg(long, value_name = "V", required_unless_present = "file")]
    wmcp: Option<String>,
    /// Full hash of the public probe
    #[arg(long, value_name = "HASH")]
    probe_hash: Option<String>,
    /// Hash of the configuration that every checkpoint is made with
    #[arg(long, value_name = "HASH")]
    config_hash: Option<String>,
    /// The release that round 0 begins with, and the group hash of its encoder
    #[arg(long, value_name = "RELEASE:HASH", value_parser = warm_start)]
    warm_start: Option<WarmStart>,
    /// Who may contribute, once for each; nobody named means anybody with a data-set commitment
    #[arg(long = "participant", value_name = "P")]
    participants: Vec<String>,
    /// Fewest contributors of a round
    #[arg(long, value_name = "N")]
    min_participants: Option<u64>,
    /// Who may read: members, released or public [default: members]
    #[arg(long, value_name = "V")]
    visibility: Option<String>,
    /// All of this as JSON, as POST /v1/runs takes it
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "name", "consortium", "wmcp", "probe_hash", "config_hash", "warm_start", "participants", "min_participants",
        "visibility",
    ])]
    file: Option<PathBuf>,
    #[command(flatten)]
    patience: Patience,
}

impl Create {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let body = match &self.file {
            Some(file) => read(file)?,
            None => registration(&self.pins()),
        };
        let (run, created) = create(&server, body, progress).await?;
        let notes = if created { Vec::new() } else { vec!["it was registered before, with the same pins".to_owned()] };
        let text = run.run.clone();
        Ok(Report { json: report::with_created(run, created), text, notes, exit: 0 })
    }

    fn pins(self) -> NewRun {
        NewRun {
            run: self.name.unwrap_or_default(),
            consortium: self.consortium.unwrap_or_default(),
            wmcp_version: self.wmcp.unwrap_or_default(),
            probe_hash: self.probe_hash,
            probe_version: None,
            config_hash: self.config_hash,
            warm_start: self.warm_start,
            participants: self.participants,
            min_participants: self.min_participants,
            visibility: self.visibility,
        }
    }
}

/// The last colon divides: a hash has none, the name of a release may.
fn warm_start(text: &str) -> Result<WarmStart, String> {
    let (release, hash) =
        text.rsplit_once(':').ok_or("write it as RELEASE:HASH, with the hash of the encoder group")?;
    Ok(WarmStart {
        release: release.to_owned(),
        encoder_group_hash: hash.to_owned(),
        file_hash: None,
        source_checkpoint: None,
    })
}
