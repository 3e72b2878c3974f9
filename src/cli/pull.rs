//! `cairn pull`: fetch an artifact or a parameter group.

use std::path::PathBuf;
use std::sync::Arc;

use crate::client::progress::Progress;
use crate::client::pull::pull;
use crate::client::reference::Reference;
use clap::Args;
use indicatif::BinaryBytes;
use serde_json::json;

use super::report::{Failure, Report};
use super::{Common, Patience};

/// Fetch an artifact, verified while it arrives; the directory appears whole or not at all
#[derive(Args)]
#[command(after_help = "\
A pull that was interrupted or killed continues when the same command is run again.
With --group, or when REF is a group hash, DIR gets one file, <group>.safetensors, whose SHA-256 is the group hash
(params-<first 12 digits>.safetensors where only the hash is known).

Examples:
  cairn pull 7c67839eab92652b5e4b2ee71025134f00f19d83dc8887e8eb6d5fc3f65e4ed8 model
  cairn pull warm@latest model --group encoder
  cairn pull warm@12 model
  cairn pull artifact://acme/warm/round-00012/encoder model
  cairn pull artifact://round-00012/encoder model --run warm")]
pub(super) struct Pull {
    /// A content hash or group hash, RUN@latest, RUN@12, or a locator of a parameter group
    #[arg(value_name = "REF")]
    reference: String,
    /// Where it goes: a directory that does not exist, or is empty
    dir: PathBuf,
    /// Only this parameter group: encoder or predictor
    #[arg(long, value_name = "G")]
    group: Option<String>,
    /// The run that a locator belongs to, where it does not say so itself
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

impl Pull {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let reference: Reference = self.reference.parse()?;
        let wanted = (self.group.as_deref(), self.run.as_deref());
        let pulled = pull(&server, &reference, &self.dir, wanted, progress).await?;
        let mut json = json!({
            "content_hash": pulled.hash,
            "bytes_received": pulled.bytes_received,
            "path": self.dir,
            "verified": true,
        });
        if let Some(round) = &pulled.round {
            json["run"] = json!(round.run.as_str());
            json["round_index"] = json!(round.index);
        }
        let mut path = self.dir;
        if let Some(group) = &pulled.group {
            path.push(&group.file);
            json["group_hash"] = json!(group.hash);
            json["file"] = json!(group.file);
        }
        let note = if pulled.present {
            "it was there already; nothing was fetched".to_owned()
        } else {
            format!("verified; {} received", BinaryBytes(pulled.bytes_received))
        };
        let hash = pulled.group.map_or_else(|| pulled.hash.to_string(), |group| group.hash.to_string());
        Ok(Report { json, text: format!("{hash}  {}", path.display()), notes: vec![note], exit: 0 })
    }
}
