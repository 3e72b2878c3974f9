//! A person's machine, for the tests of the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::vectors::command;

/// A person's machine: a home for the program's state, and a place for what is pulled.
pub(crate) struct Home(pub(crate) TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.0.path().join("model")
    }

    /// What a pull has left beside its target.
    pub(crate) fn beside(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().contains(".cairn-")).collect()
    }

    /// Waits until a pull has this many bytes of weights on the disk.
    pub(crate) fn wait_for(&self, bytes: u64) {
        let staged = || -> u64 {
            let files = self.beside().into_iter().flat_map(|staging| fs::read_dir(staging).unwrap());
            files.map(|file| file.unwrap()).filter(is_weights).map(|file| file.metadata().unwrap().len()).sum()
        };
        let begun = Instant::now();
        while staged() < bytes {
            assert!(begun.elapsed() < Duration::from_mins(1), "only {} of {bytes} bytes are there", staged());
            std::thread::yield_now();
        }
    }

    /// The sessions that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        fs::read_dir(self.0.path().join("state/cairn")).map_or(0, Iterator::count)
    }

    pub(crate) fn run(&self, arguments: &[&str], server: &str) -> Command {
        let mut command = command(arguments);
        command.args(["--json", "--server", server, "--idle-timeout", "5"]);
        command.env("XDG_STATE_HOME", self.0.path().join("state"));
        command
    }

    pub(crate) fn push(&self, directory: &Path, server: &str) -> Output {
        self.run(&["push", directory.to_str().unwrap()], server).output().unwrap()
    }

    pub(crate) fn pull(&self, reference: &str, server: &str) -> Output {
        self.run(&["pull", reference, self.target().to_str().unwrap()], server).output().unwrap()
    }

    pub(crate) fn start(&self, arguments: &[&str], server: &str) -> Child {
        self.run(arguments, server).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn is_weights(file: &fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|extension| extension == "safetensors")
}
