//! `cairn run show`: what a run is pinned to, and where it stands.

use std::sync::Arc;

use crate::api::run::{Head, Run};
use crate::cli::report::{Failure, Report, count, plain};
use crate::cli::{Common, Patience};
use crate::client::progress::Progress;
use crate::client::run::RemoteRun;
use clap::Args;

/// Show what a run is pinned to, and where it stands
#[derive(Args)]
#[command(after_help = "Example:\n  cairn run show warm")]
pub(in crate::cli) struct Show {
    /// The run
    run: String,
    #[command(flatten)]
    patience: Patience,
}

impl Show {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let server = common.server(&self.patience)?;
        let run = RemoteRun::new(&server, &self.run, progress)?;
        let (pins, head) = (run.show().await?, run.head().await?);
        let mut rows = pinned(&pins);
        rows.extend(standing(&head));
        let lines: Vec<String> =
            rows.into_iter().map(|(name, value)| format!("{name:12}  {}", plain(&value))).collect();
        let json = serde_json::to_value(&pins).unwrap_or_default();
        Ok(Report { json, text: lines.join("\n"), notes: Vec::new(), exit: 0 })
    }
}

type Row = (&'static str, String);

fn pinned(run: &Run) -> Vec<Row> {
    let mut rows = vec![
        ("run", run.run.clone()),
        ("consortium", run.consortium.clone()),
        ("contract", run.wmcp_version.clone()),
        ("probe", run.probe_hash.clone().unwrap_or_else(|| "none".to_owned())),
        ("config", run.config_hash.clone().unwrap_or_else(|| "any".to_owned())),
    ];
    if let Some(pin) = &run.warm_start {
        rows.push(("warm start", format!("{}  {}", pin.encoder_group_hash, pin.release)));
    }
    let who = if run.participants.is_empty() { "anybody".to_owned() } else { run.participants.join(", ") };
    let least = run.min_participants.map_or_else(String::new, |least| format!("; at least {least} in a round"));
    rows.push(("participants", format!("{who}{least}")));
    rows.push(("visibility", run.visibility.clone()));
    rows.push(("created", run.created_at.clone()));
    rows
}

fn standing(head: &Head) -> Vec<Row> {
    let (Some(round), Some(hash)) = (head.round_index, &head.content_hash) else {
        return vec![("head", "no round yet".to_owned())];
    };
    let mut rows = vec![("head", format!("{hash}  round {round}, attempt {}", head.attempt))];
    for (name, reference) in [("encoder", &head.theta_ref), ("predictor", &head.phi_ref)] {
        if let Some(reference) = reference {
            rows.push((name, format!("{}  {}", reference.content_hash, reference.locator)));
        }
    }
    let tail = head.ledger_tail.as_ref().map_or_else(String::new, |tail| format!("{tail}  "));
    rows.push((
        "ledger",
        format!("{tail}{}", count(usize::try_from(head.ledger_count).unwrap_or(usize::MAX), "record")),
    ));
    rows
}
