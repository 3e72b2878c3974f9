//! The server as its own process, which can be killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use cairn::service::Database;
use tempfile::TempDir;

use super::client::Api;
use super::postgres;

pub struct ServerProcess {
    dir: TempDir,
    settings: Vec<(&'static str, String)>,
    child: Child,
    pub api: Api,
}

impl ServerProcess {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With settings from the environment, such as `CAIRN_UPLOAD__SESSION_HOURS`.
    pub fn start_with(settings: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("cairn-it-").tempdir().unwrap();
        let mut settings: Vec<_> = settings.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        if let Database::Postgres(url) = postgres::database_for(dir.path()) {
            settings.push(("CAIRN_STORAGE__DATABASE", url));
        }
        let (child, api) = spawn(dir.path(), &settings);
        Self { dir, settings, child, api }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: nothing is written, said or cleaned up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM: the server is asked to stop.
    pub fn terminate(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap().success());
    }

    /// How the process has ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Starts a new process on the same directory.
    pub fn resume(&mut self) {
        (self.child, self.api) = spawn(self.dir.path(), &self.settings);
    }

    /// The same, with more settings for this once.
    pub fn resume_with(&mut self, settings: &[(&'static str, &str)]) {
        let mut all = self.settings.clone();
        all.extend(settings.iter().map(|(key, value)| (*key, (*value).to_owned())));
        (self.child, self.api) = spawn(self.dir.path(), &all);
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr.log")).unwrap()
    }

    /// The most memory that the process has held at once, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the server's log:\n{}", self.log());
        }
        if postgres::chosen() {
            postgres::forget(self.dir.path());
        }
    }
}

fn spawn(dir: &Path, settings: &[(&'static str, String)]) -> (Child, Api) {
    let log = File::options().create(true).append(true).open(dir.join("stderr.log")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir)
        .envs(settings.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line)
        .unwrap_or_else(|_| panic!("{line:?}; {}", fs::read_to_string(dir.join("stderr.log")).unwrap()));
    (child, Api::new(told["listening"].as_str().unwrap()))
}
