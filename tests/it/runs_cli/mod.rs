//! Runs through the real program: a coordinator that commits rounds, and those who follow it.

mod broken;
mod named;
mod refused;
mod story;

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use crate::home::Home;
use crate::registry::Registry;
use crate::vectors::{golden, object};

/// The group hashes and content hashes of the golden run are in its files; what it is called is up to us.
const RUN: &str = "warm-1";

#[track_caller]
fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    object(output)
}

/// The problem of a command that ended with this exit code.
#[track_caller]
fn failed(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    object(output)["error"].clone()
}

/// A file of the run that Lensemble's own library has made: four rounds, their ledger, three commitments.
fn file(name: &str) -> String {
    let path: PathBuf = golden().join("run").join(name);
    path.to_str().unwrap().to_owned()
}

fn round(index: u64) -> String {
    file(&format!("round-{index:05}"))
}

/// A coordinator's machine and its registry.
struct Coordinator {
    registry: Registry,
    home: Home,
}

impl Coordinator {
    /// With a run that has no round yet, and participants that are bound to their data.
    fn start() -> Self {
        let it = Self { registry: Registry::start(), home: Home::new() };
        done(&it.cairn(&["run", "create", RUN, "--consortium", "acme", "--wmcp", "wmcp-1.0.0"]));
        for participant in ["c0", "c1", "c2"] {
            let commitment = file(&format!("commitments/{participant}.json"));
            done(&it.cairn(&["document", "commit-dataset", RUN, participant, &commitment]));
        }
        it
    }

    fn cairn(&self, arguments: &[&str]) -> Output {
        self.home.run(arguments, &self.registry.url()).output().unwrap()
    }

    /// What it runs to commit a round: the record comes out of the whole ledger.
    fn arguments(index: u64) -> Vec<String> {
        let mut arguments: Vec<String> = ["push", &round(index), "--run", RUN, "--commit"].map(str::to_owned).into();
        if index > 0 {
            arguments.extend(["--record".to_owned(), file("ledger.jsonl")]);
        }
        arguments
    }

    fn commit(&self, index: u64) -> Output {
        let arguments = Self::arguments(index);
        self.cairn(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}
