//! `cairn hash`: the hashes of a directory, as the registry will name it.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crate::client::progress::Progress;
use clap::Args;
use serde_json::json;

use super::report::{self, Failure, Report};
use super::verify::{notes, recompute};

/// Print the content hash, the group hashes and the file hashes of an artifact directory
#[derive(Args)]
#[command(after_help = "A directory that is not right has no hashes: it fails as `cairn verify` does.\n\n\
                        Example:\n  cairn hash round-00012 --json")]
pub(super) struct Hash {
    /// The directory: header.json and the weight files that it names
    dir: PathBuf,
}

impl Hash {
    /// Runs the command.
    pub(super) async fn run(self, progress: Arc<dyn Progress>) -> Result<Report, Failure> {
        let verified = recompute(self.dir, None, progress).await?;
        let mut text = format!("content  {}", verified.content_hash());
        for group in verified.groups() {
            // Writing into memory cannot fail.
            let _ = write!(text, "\ngroup    {}  {}", group.digest, group.name);
        }
        for file in verified.files() {
            let _ = write!(text, "\nfile     {}  {}", file.digest, file.name);
        }
        let json = json!({
            "content_hash": verified.content_hash(),
            "groups": report::groups(&verified),
            "files": report::files(&verified),
        });
        Ok(Report { json, text, notes: notes(&verified), exit: 0 })
    }
}
