//! `cairn serve`: the registry itself.

use std::path::PathBuf;

use cairn::client::error::Error;
use clap::Args;

use super::report::{Failure, Report};

/// Run the registry; with no options it listens on 127.0.0.1:8417 and keeps everything in ./cairn-data
#[derive(Args)]
#[command(after_help = "Example:\n  cairn serve --data-dir /srv/cairn --listen 0.0.0.0:8417")]
pub struct Serve {
    /// A configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

impl Serve {
    /// Runs the command.
    #[expect(clippy::unused_async, reason = "the server will wait here")]
    pub async fn run(self) -> Result<Report, Failure> {
        Err(Error::usage("this build has no server", "Use a build with the server feature.").into())
    }
}
