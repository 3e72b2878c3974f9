//! `cairn run`: register a run, look at it, and act on it. One file for each command.

mod abort;
mod create;
mod list;
mod show;
mod wait;

use std::sync::Arc;

use crate::client::progress::Progress;
use clap::Subcommand;

use super::Common;
use super::report::{Failure, Report};

/// Register runs, look at them, wait for their rounds
#[derive(Subcommand)]
pub(super) enum Run {
    Create(Box<create::Create>),
    List(list::List),
    Show(show::Show),
    Abort(abort::Abort),
    Wait(wait::Wait),
}

impl Run {
    /// Runs the command.
    pub(super) async fn run(self, common: &Common, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        match self {
            Self::Create(command) => command.run(common, progress).await,
            Self::List(command) => command.run(common, progress).await,
            Self::Show(command) => command.run(common, progress).await,
            Self::Abort(command) => command.run(common, progress).await,
            Self::Wait(command) => command.run(common, progress).await,
        }
    }
}
