//! The server inside the test: the real registry, router and listener on a free port.

use std::path::Path;
use std::sync::Arc;

use cairn::http::{self, conn};
use cairn::service::{Database, Options, Registry};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::Api;
use super::postgres;
use super::wait::{soon, until};

/// How a test wants its server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub service: Options,
    pub connections: conn::Options,
}

pub struct TestServer {
    dir: Arc<TempDir>,
    setup: Setup,
    database: Database,
    running: Option<Running>,
    pub api: Api,
}

struct Running {
    registry: Arc<Registry>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    pub async fn start_with(setup: Setup) -> Self {
        let dir = directory();
        let database = postgres::database_for(dir.path());
        Self::start_on(dir, database, setup).await
    }

    /// With its rows in SQLite, whichever database was chosen: for what looks into the file itself.
    pub async fn start_on_sqlite() -> Self {
        Self::start_on(directory(), Database::Sqlite, Setup::default()).await
    }

    /// With its rows in Postgres, whichever database was chosen.
    pub async fn start_on_postgres() -> Self {
        let dir = directory();
        let database = Database::Postgres(postgres::create(&postgres::name(dir.path())));
        Self::start_on(dir, database, Setup::default()).await
    }

    async fn start_on(dir: Arc<TempDir>, database: Database, setup: Setup) -> Self {
        let (running, api) = run(dir.path(), &database, &setup).await;
        Self { dir, setup, database, running: Some(running), api }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.running.as_ref().unwrap().registry
    }

    /// Address of the listener, without the scheme.
    pub fn address(&self) -> &str {
        self.api.base.strip_prefix("http://").unwrap()
    }

    /// Stops as `serve` does: requests in flight may finish.
    pub async fn stop(&mut self) {
        let Some(Running { registry, stop, task }) = self.running.take() else { return };
        registry.stop_waiting();
        let _ = stop.send(());
        soon("the graceful stop", task).await.unwrap();
        registry.close().await;
    }

    /// Starts again on the same directory.
    pub async fn resume(&mut self) {
        let (running, api) = run(self.dir.path(), &self.database, &self.setup).await;
        (self.running, self.api) = (Some(running), api);
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.resume().await;
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.database != Database::Sqlite {
            postgres::forget(self.dir.path());
        }
    }
}

fn directory() -> Arc<TempDir> {
    Arc::new(tempfile::Builder::new().prefix("cairn-it-").tempdir().unwrap())
}

async fn run(dir: &Path, database: &Database, setup: &Setup) -> (Running, Api) {
    // What a request left running may hold the data directory a moment longer.
    let registry = until("the data directory to be free", || async {
        match Registry::open_on(database, dir, setup.service).await {
            Ok(registry) => Some(registry),
            Err(error) if error.to_string().starts_with("lock the data directory") => None,
            Err(error) => panic!("the registry does not open: {error:?}"),
        }
    })
    .await;
    let leftovers = registry.leftovers().await.unwrap();
    registry.reclaim(leftovers).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = Api::new(format!("http://{}", listener.local_addr().unwrap()));
    let (stop, stopped) = oneshot::channel();
    let serving = conn::serve(listener, http::router(registry.clone()), setup.connections.clone(), async {
        let _ = stopped.await;
    });
    let task = tokio::spawn(async { serving.await.unwrap() });
    (Running { registry, stop, task }, api)
}
