//! The golden vectors of Lensemble's own library, for the tests beside the code.

use std::fs;
use std::path::Path;

use super::json::Value;

/// One entry of the index.
pub(super) struct Vector {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) expect: Value,
    /// The whole entry.
    pub(super) entry: Value,
}

impl Vector {
    /// The codes that are right for it; none when it must be accepted.
    pub(super) fn codes(&self) -> Vec<&str> {
        match text(&self.expect, "outcome") {
            "accept" => Vec::new(),
            "reject" => {
                let also = match self.expect.at(&["also_ok"]) {
                    Some(Value::Array(codes)) => codes.as_slice(),
                    _ => &[],
                };
                let also = also.iter().map(|code| match code {
                    Value::String(code) => code.as_str(),
                    _ => panic!("{}: also_ok", self.id),
                });
                also.chain([text(&self.expect, "code")]).collect()
            }
            other => panic!("{}: unknown outcome {other}", self.id),
        }
    }
}

/// The bytes of a file of the vectors.
pub(super) fn read(path: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lensemble");
    fs::read(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A text in an object.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    match value.at(&[name]) {
        Some(Value::String(text)) => text,
        other => panic!("{name} is {other:?}"),
    }
}

/// The entries of a kind, in the order of the index.
pub(super) fn vectors(kind: &str) -> Vec<Vector> {
    let index = Value::parse(&read("index.json")).unwrap();
    let Some(Value::Array(entries)) = index.at(&["vectors"]) else { panic!("the index has no vectors") };
    entries
        .iter()
        .filter(|entry| text(entry, "kind") == kind)
        .map(|entry| Vector {
            id: text(entry, "id").to_owned(),
            path: text(entry, "path").to_owned(),
            expect: entry.at(&["expect"]).cloned().unwrap_or(Value::Null),
            entry: entry.clone(),
        })
        .collect()
}
