//! What the tests share: the golden vectors, the program, and artifacts made from nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The folder of the vectors that Lensemble's own library has made.
pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lensemble")
}

/// One vector of the golden index.
pub(crate) struct Vector(pub Value);

impl Vector {
    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    pub(crate) fn directory(&self) -> PathBuf {
        golden().join(self.0["path"].as_str().unwrap())
    }

    /// The hash that the caller of the vector expects, in any spelling.
    pub(crate) fn expected(&self) -> Option<&str> {
        self.0["expected_hash"].as_str()
    }

    pub(crate) fn is_accepted(&self) -> bool {
        match self.0["expect"]["outcome"].as_str().unwrap() {
            "accept" => true,
            "reject" => false,
            other => panic!("{}: unknown outcome {other}", self.id()),
        }
    }

    /// The codes that are right for a rejected vector.
    pub(crate) fn codes(&self) -> Vec<&str> {
        let also = self.0["expect"]["also_ok"].as_array().into_iter().flatten();
        std::iter::once(&self.0["expect"]["code"]).chain(also).map(|code| code.as_str().unwrap()).collect()
    }

    /// Name and SHA-256 of the files in the vector's directory.
    pub(crate) fn files(&self) -> Vec<(&str, &str)> {
        let prefix = format!("{}/", self.0["path"].as_str().unwrap());
        let files = self.0["files"].as_array().unwrap().iter();
        files
            .filter_map(|file| {
                Some((file["path"].as_str().unwrap().strip_prefix(&prefix)?, file["sha256"].as_str().unwrap()))
            })
            .collect()
    }
}

/// The vectors of a kind, as many as there have to be.
pub(crate) fn vectors(kind: &str, count: usize) -> Vec<Vector> {
    let index: Value = serde_json::from_slice(&std::fs::read(golden().join("index.json")).unwrap()).unwrap();
    let Value::Array(vectors) = index["vectors"].clone() else { panic!("no vectors") };
    let vectors: Vec<_> = vectors.into_iter().filter(|vector| vector["kind"] == kind).map(Vector).collect();
    assert_eq!(vectors.len(), count, "vectors of kind {kind}");
    vectors
}

/// Runs the program with nothing of the caller's surroundings that could matter.
pub(crate) fn cairn<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    command(arguments).output().unwrap()
}

/// The program, ready to run.
pub(crate) fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
    command.args(arguments).env_remove("CAIRN_SERVER").env_remove("CAIRN_TOKEN");
    command
}

/// What `--json` has printed: exactly one object on one line.
pub(crate) fn object(output: &Output) -> Value {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_str(text).unwrap();
    assert!(value.is_object());
    value
}
