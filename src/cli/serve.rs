//! `cairn serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::http;
use crate::service::Registry;
use crate::telemetry;

/// How often expired sessions are looked for.
const SWEEP: Duration = Duration::from_mins(10);

/// Run the registry.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cairn serve\n  cairn serve --data-dir /srv/cairn --listen 127.0.0.1:8417")]
pub(super) struct Serve {
    /// Configuration file (TOML); see configs/ for commented examples
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory that holds everything: the database and the files [default: ./cairn-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:8417]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

impl Serve {
    /// Runs until SIGINT or SIGTERM, then lets requests in flight finish.
    ///
    /// # Errors
    /// When the configuration is not usable, the data directory is in use, or the address is taken.
    pub(super) async fn run(self, json: bool) -> anyhow::Result<()> {
        let mut config = Config::read(self.config.as_deref())?;
        if let Some(dir) = self.data_dir {
            config.storage.data_dir = dir;
        }
        if let Some(listen) = self.listen {
            config.server.listen = listen;
        }
        let config = config.check()?;
        telemetry::start(&config.log).map_err(anyhow::Error::from_boxed)?;
        let data_dir = &config.storage.data_dir;
        let registry = Registry::open_on(&config.database()?, data_dir, config.service())
            .await
            .with_context(|| format!("open the registry in {}", data_dir.display()))?;
        // Before anything is taken in: whatever nothing refers to now was left by an earlier process.
        let leftovers = registry.leftovers().await?;
        let listener = TcpListener::bind(config.server.listen)
            .await
            .with_context(|| format!("listen on {}", config.server.listen))?;
        let address = listener.local_addr()?;
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        announce(address, &config, json);

        let sweeper = {
            let registry = registry.clone();
            tokio::spawn(async move {
                if let Err(error) = registry.reclaim(leftovers).await {
                    tracing::error!(?error, "leftovers could not be removed");
                }
                let mut ticks = tokio::time::interval(SWEEP);
                loop {
                    ticks.tick().await;
                    if let Err(error) = registry.expire().await {
                        tracing::error!(?error, "expired sessions could not be removed");
                    }
                }
            })
        };
        let waited_for = registry.clone();
        let shutdown = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            tracing::info!("shutting down; requests in flight may finish");
            waited_for.stop_waiting();
        };
        http::conn::serve(listener, http::router(registry.clone()), config.connections(), shutdown).await?;
        sweeper.abort();
        registry.close().await;
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the one line that scripts wait for")]
fn announce(address: SocketAddr, config: &Config, json: bool) {
    if json {
        println!("{}", serde_json::json!({"listening": format!("http://{address}")}));
    }
    let data_dir = std::path::absolute(&config.storage.data_dir).unwrap_or_else(|_| config.storage.data_dir.clone());
    tracing::info!(data_dir = %data_dir.display(), "cairn {} listens on http://{address}", env!("CARGO_PKG_VERSION"));
    if !json {
        eprintln!("\n  cairn  http://{address}        push, pull, verify and commit checkpoints");
        eprintln!("  docs   http://{address}/docs");
        eprintln!("  data   {}\n", data_dir.display());
    }
}
