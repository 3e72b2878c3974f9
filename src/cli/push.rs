//! `cairn push`: send an artifact directory.

use std::path::PathBuf;
use std::sync::Arc;

use crate::client::directory::Directory;
use crate::client::error::Error;
use crate::client::progress::Progress;
use crate::client::push::{default_place, push};
use crate::core::limits::Limits;
use clap::Args;
use indicatif::BinaryBytes;
use serde_json::json;

use super::report::{self, Failure, Report};
use super::{Common, Patience};

/// Send an artifact directory to the registry and print its content hash
#[derive(Args)]
#[command(after_help = "A push that was interrupted or killed continues when the same command is run again.\n\n\
                        Example:\n  cairn push round-00012 --server https://registry.example")]
pub(super) struct Push {
    /// The directory: header.json and the weight files that it names
    dir: PathBuf,
    #[command(flatten)]
    patience: Patience,
}

impl Push {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let directory = tokio::task::spawn_blocking(move || Directory::open(&self.dir, Limits::DEFAULT))
            .await
            .map_err(|error| Error::unavailable(format!("the work was not finished: {error}"), "Try again."))??;
        let memory = default_place();
        let pushed = push(&server, directory, memory.as_deref(), progress).await?;
        let hash = pushed.verified.content_hash();
        let sent = BinaryBytes(pushed.bytes_sent);
        let mut notes = pushed.warnings;
        notes.push(if pushed.created {
            format!("stored; {sent} sent")
        } else if pushed.bytes_sent == 0 {
            "the registry has it already; nothing was sent".to_owned()
        } else {
            format!("the registry has it already; {sent} sent")
        });
        let json = json!({
            "content_hash": hash,
            "created": pushed.created,
            "bytes_sent": pushed.bytes_sent,
            "groups": report::groups(&pushed.verified),
        });
        Ok(Report { json, text: hash.to_string(), notes })
    }
}
