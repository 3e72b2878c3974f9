//! `cairn verify`: recompute every hash of a directory and compare, without a server.

use std::path::PathBuf;
use std::sync::Arc;

use crate::client::directory;
use crate::client::error::Error;
use crate::client::progress::Progress;
use crate::core::intake::Verified;
use clap::Args;
use indicatif::BinaryBytes;
use serde_json::json;

use super::report::{self, Failure, Report};

/// Recompute every hash of an artifact directory and compare, offline
#[derive(Args)]
#[command(
    after_help = "Example:\n  cairn verify round-00012 --expect 7c67839eab92652b5e4b2ee71025134f00f19d83dc8887e8eb6d5fc3f65e4ed8"
)]
pub(super) struct Verify {
    /// The directory: header.json and the weight files that it names
    dir: PathBuf,
    /// The content hash that it must have
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,
}

impl Verify {
    /// Runs the command.
    pub(super) async fn run(self, progress: Arc<dyn Progress>) -> Result<Report, Failure> {
        let Self { dir, expect } = self;
        let verified = recompute(dir, expect, progress).await.map_err(Failure::not_ok)?;
        let size = verified.files().iter().map(|file| file.len).sum();
        let header = verified.header();
        let text = format!(
            "ok  {}\n    round {}, {}, {}, {} in {}",
            verified.content_hash(),
            header.round_index,
            report::count(header.manifest.len(), "tensor"),
            report::count(verified.groups().len(), "group"),
            BinaryBytes(size),
            report::count(verified.files().len(), "file"),
        );
        let json = json!({
            "ok": true,
            "content_hash": verified.content_hash(),
            "groups": report::groups(&verified),
            "files": report::files(&verified),
            "parent_hash": header.parent_hash,
            "round_index": header.round_index,
            "size": size,
            "warnings": verified.warnings(),
        });
        Ok(Report { json, text, notes: notes(&verified), exit: 0 })
    }
}

/// Verifies a directory away from the threads that listen for an interrupt.
pub(super) async fn recompute(
    dir: PathBuf,
    expect: Option<String>,
    progress: Arc<dyn Progress>,
) -> Result<Verified, Error> {
    tokio::task::spawn_blocking(move || directory::verify(&dir, expect.as_deref(), &*progress))
        .await
        .unwrap_or_else(|error| Err(Error::unavailable(format!("the work was not finished: {error}"), "Try again.")))
}

/// What is worth knowing without being wrong.
pub(super) fn notes(verified: &Verified) -> Vec<String> {
    verified.warnings().iter().map(|warning| (*warning).to_owned()).collect()
}
