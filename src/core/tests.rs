//! The golden vectors, for the tests of whatever reads them.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// One entry of the vectors' index.
pub(in crate::core) struct Vector {
    /// The whole entry.
    pub entry: Value,
    /// Its `id`, for messages.
    pub id: String,
    /// Its `path`, below the folder of the vectors.
    pub path: String,
}

impl Vector {
    /// The bytes of its file.
    pub(in crate::core) fn bytes(&self) -> Vec<u8> {
        bytes(&self.path)
    }

    /// The codes that are right for it; none when it must be accepted.
    pub(in crate::core) fn codes(&self) -> Vec<&str> {
        let also = self.entry["expect"]["also_ok"].as_array().into_iter().flatten();
        also.filter_map(Value::as_str).chain(self.refusal()).collect()
    }

    /// The code that it expects; `None` when it is to be accepted.
    pub(in crate::core) fn refusal(&self) -> Option<&str> {
        self.entry["expect"]["code"].as_str()
    }
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/lensemble"))
}

/// The bytes of a file among the vectors.
pub(crate) fn bytes(path: &str) -> Vec<u8> {
    fs::read(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A JSON file among the vectors.
pub(in crate::core) fn json(path: &str) -> Value {
    serde_json::from_slice(&bytes(path)).unwrap()
}

/// Every vector of a kind; `count` is how many there must be, so that none is skipped unseen.
pub(in crate::core) fn vectors(kind: &str, count: usize) -> Vec<Vector> {
    let index = json("index.json");
    let found: Vec<Vector> = index["vectors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["kind"] == kind)
        .map(|entry| Vector {
            entry: entry.clone(),
            id: entry["id"].as_str().unwrap().to_owned(),
            path: entry["path"].as_str().unwrap().to_owned(),
        })
        .collect();
    assert_eq!(found.len(), count, "vectors of kind {kind}");
    assert_eq!(index["counts"][kind], count, "vectors of kind {kind} by the index");
    found
}
