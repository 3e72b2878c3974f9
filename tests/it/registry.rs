//! The real server, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::vectors::command;

/// A running registry; it is killed when this is dropped.
pub(crate) struct Registry {
    place: TempDir,
    process: Child,
    address: SocketAddr,
}

impl Registry {
    /// Starts an empty one on a free port.
    pub(crate) fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (process, address) = serve(place.path(), "127.0.0.1:0");
        Self { place, process, address }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills it as a power cut would, and starts it again on the same port over the same data.
    pub(crate) fn crash_and_restart(&mut self) {
        self.kill();
        let (process, address) = serve(self.place.path(), &self.address.to_string());
        assert_eq!(address, self.address);
        self.process = process;
    }

    /// Every file that it keeps, wherever that is.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut open = vec![self.place.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() { &mut open } else { &mut files }.push(entry.path());
            }
        }
        files
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(place: &Path, listen: &str) -> (Child, SocketAddr) {
    let mut process = command(["serve", "--json", "--listen", listen, "--data-dir"])
        .arg(place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let address = told["listening"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    (process, address)
}
