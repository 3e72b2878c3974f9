//! A throw-away Postgres for the tests: one cluster for each test process, one database for each server.
//!
//! The cluster starts with the first test that needs it, and ends with the process, however that ends: a watcher waits
//! for the end of a pipe whose other side only the test process holds.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cairn::service::Database;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

const MISSING: &str = "the tests need Postgres' programs `initdb` and `postgres`, on the PATH or in \
    /usr/lib/postgresql/*/bin: install them with `apt-get install postgresql`";

/// True when every server of the tests shall have its rows in Postgres.
pub fn chosen() -> bool {
    match std::env::var("CAIRN_TEST_DATABASE").as_deref() {
        Ok("postgres") => true,
        Ok("sqlite") | Err(_) => false,
        Ok(other) => panic!("CAIRN_TEST_DATABASE is {other}; expected sqlite or postgres"),
    }
}

/// A new database for the server on a data directory, in the kind of database that was chosen.
pub fn database_for(dir: &Path) -> Database {
    if chosen() { Database::Postgres(create(&name(dir))) } else { Database::Sqlite }
}

/// Drops the database of a data directory.
pub fn forget(dir: &Path) {
    execute(format!("drop database if exists \"{}\" with (force)", name(dir)));
}

/// The database of a data directory is named after it.
pub fn name(dir: &Path) -> String {
    dir.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Makes a database; its URL.
pub fn create(name: &str) -> String {
    execute(format!("create database \"{name}\""));
    url(name)
}

pub fn url(name: &str) -> String {
    format!("postgres://cairn@127.0.0.1:{}/{name}", cluster().port)
}

/// Opens a database beside the server.
pub async fn connect(name: &str) -> PgConnection {
    url(name).parse::<PgConnectOptions>().unwrap().connect().await.unwrap()
}

/// Runs a statement that belongs to no database of a test, also where there is no runtime to wait in.
fn execute(statement: String) {
    let url = url("postgres");
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    };
    std::thread::spawn(work).join().unwrap();
}

struct Cluster {
    port: u16,
    /// Its standard input is the pipe.
    _watcher: Child,
}

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(start)
}

/// The directory of the programs.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.map(|entry| entry.unwrap().path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    places.extend(debian.into_iter().rev());
    let complete = |place: &PathBuf| place.join("initdb").exists() && place.join("postgres").exists();
    places.into_iter().find(complete).unwrap_or_else(|| panic!("{MISSING}"))
}

/// Postgres refuses to run as root; then it runs as the first of these users that exists.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let ids = |wanted: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
    };
    let found = ["postgres", "nobody"].into_iter().find_map(ids);
    assert!(found.is_some(), "Postgres does not run as root, and neither of the users postgres and nobody exists");
    found
}

/// A command as that user.
fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/");
    command
}

fn start() -> Cluster {
    let (programs, user) = (programs(), user());
    let dir = tempfile::Builder::new().prefix("cairn-pg-").tempdir().unwrap().keep();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    if let Some((uid, gid)) = user {
        chown(&dir, Some(uid), Some(gid)).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let data = dir.join("data");
    let made = command(&programs.join("initdb"), user)
        .args(["--username=cairn", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "-D"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    // Nothing here has to survive a power cut.
    let settings = format!(
        "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\nmax_connections = 400\n\
         fsync = off\nfull_page_writes = off\nautovacuum = off\nshared_buffers = 64MB\n",
        dir.display()
    );
    fs::File::options()
        .append(true)
        .open(data.join("postgresql.conf"))
        .and_then(|mut file| file.write_all(settings.as_bytes()))
        .unwrap();
    let script = "trap '' INT TERM HUP\n\
        \"$1\" -D \"$2/data\" >\"$2/log\" 2>&1 </dev/null &\n\
        pid=$!\nread -r end\nkill -QUIT $pid\nwait $pid\nrm -rf \"$2\"\n";
    let watcher = command(Path::new("/bin/sh"), user)
        .args(["-c", script, "watch"])
        .args([&programs.join("postgres"), &dir])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|told| told.contains("ready")) {
        let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_mins(1), "Postgres does not start: {}", log());
        std::thread::yield_now();
    }
    Cluster { port, _watcher: watcher }
}
