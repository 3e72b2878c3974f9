//! The command line: what is asked for, and how the answer is shown. One file for each command.

mod audit;
mod document;
mod hash;
mod log;
mod progress;
mod pull;
mod push;
mod report;
mod run;
mod serve;
mod verify;
mod when;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::client::error::Error;
use crate::client::progress::Progress;
use crate::client::server::{DEFAULT_IDLE, DEFAULT_URL, Server};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use report::{Failure, Report};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the thing that was checked is wrong, or the server refuses it
  2    could not run: wrong usage, a server that cannot be reached, a full disk
  3    with --strict, only warnings (`cairn audit`)
  130  interrupted; the same command continues where it stopped

Examples:
  cairn serve                                   a registry on this machine, in ./cairn-data
  cairn push round-00012                        send a checkpoint
  cairn pull 7c67839eab92… model                fetch it elsewhere, verified
  cairn push round-00013 --run warm --commit    send the next round of a run, and commit it
  cairn log warm                                what has happened in the run
  cairn pull warm@latest model --group encoder  fetch what the newest round trains
  cairn audit warm                              check all of it, back to round 0";

/// A registry for federated training: verified checkpoints, their lineage and their history.
#[derive(Parser)]
#[command(name = "cairn", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args)]
struct Common {
    /// Print one JSON object on standard output; text for people goes to standard error
    #[arg(long, global = true)]
    json: bool,
    /// The registry to talk to
    #[arg(long, global = true, value_name = "URL", env = "CAIRN_SERVER", default_value = DEFAULT_URL)]
    server: String,
    /// A bearer token for the registry
    #[arg(long, global = true, value_name = "TOKEN", env = "CAIRN_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    #[command(flatten)]
    Talk(Talk),
}

/// What answers and ends.
#[derive(Subcommand)]
enum Talk {
    Push(push::Push),
    Pull(pull::Pull),
    Verify(verify::Verify),
    Hash(hash::Hash),
    #[command(subcommand)]
    Run(run::Run),
    Log(log::Log),
    Audit(audit::Audit),
    #[command(subcommand)]
    Document(document::Document),
}

/// How patient a transfer is.
#[derive(Args)]
struct Patience {
    /// Seconds without a byte after which a connection is given up and opened again
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_IDLE.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_timeout: u64,
}

impl Common {
    fn server(&self, patience: &Patience) -> Result<Server, Error> {
        Server::new(&self.server, self.token.as_deref(), Duration::from_secs(patience.idle_timeout))
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.common.json;
    run(arguments).unwrap_or_else(|error| {
        // Only what no command has a problem document for arrives here.
        let error = Error::unavailable(format!("{error:#}"), "Check the limits of this machine.");
        report::fail(&Failure::from(error), json)
    })
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads that the program runs on")?;
    let json = arguments.common.json;
    let command = match arguments.command {
        // It has signals of its own: one lets requests in flight finish.
        Command::Serve(serve) => return Ok(report::served(runtime.block_on(serve.run(json)))),
        Command::Talk(command) => command,
    };
    let bar = Arc::new(progress::Shown::new());
    let listening = runtime.block_on(async { signal(SignalKind::interrupt()) });
    // Before anything is sent: whoever sees a request may interrupt us.
    let mut interrupt = listening.context("cannot listen for an interrupt")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = dispatch(command, &arguments.common, Arc::clone(&bar) as Arc<dyn Progress>) => Some(outcome),
            _ = interrupt.recv() => None,
        }
    });
    bar.clear();
    // Work in the background may be in the middle of a piece; nothing waits for it.
    runtime.shutdown_background();
    Ok(match outcome {
        Some(Ok(report)) => report::succeed(&report, json),
        Some(Err(failure)) => report::fail(&failure, json),
        None => report::interrupted(),
    })
}

async fn dispatch(command: Talk, common: &Common, progress: Arc<dyn Progress>) -> Result<Report, Failure> {
    match command {
        Talk::Push(command) => command.run(common, &progress).await,
        Talk::Pull(command) => command.run(common, &progress).await,
        Talk::Verify(command) => command.run(progress).await,
        Talk::Hash(command) => command.run(progress).await,
        Talk::Run(command) => command.run(common, &progress).await,
        Talk::Log(command) => command.run(common, &progress).await,
        Talk::Audit(command) => command.run(common, &progress).await,
        Talk::Document(command) => command.run(common, &progress).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn common_options_may_stand_behind_the_command() {
        let arguments =
            Arguments::try_parse_from(["cairn", "hash", "dir", "--json", "--server", "http://h:1"]).unwrap();
        assert!(arguments.common.json);
        assert_eq!(arguments.common.server, "http://h:1");
    }
}
