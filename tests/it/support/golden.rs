//! The golden vectors, made by Lensemble's own library.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::checkpoint::sha256;

#[derive(Debug, Deserialize)]
pub struct Vector {
    pub id: String,
    pub path: String,
    pub files: Vec<FileOf>,
    pub expect: serde_json::Value,
    /// The hash that the caller asks for, where that is not the one in the header.
    pub expected_hash: Option<String>,
    #[serde(default)]
    pub group_hashes: BTreeMap<String, String>,
    /// The checkpoints of a chain, in the order in which they are uploaded.
    #[serde(default)]
    pub members: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct FileOf {
    pub path: String,
    pub sha256: String,
}

impl Vector {
    /// The name of each file relative to the artifact's directory, and its bytes; `header.json` first if it is there.
    pub fn read(&self) -> Vec<(String, Vec<u8>)> {
        let base = format!("{}/", self.path);
        let outside = self.path.rsplit_once('/').map_or(String::new(), |(parent, _)| format!("{parent}/"));
        let mut files: Vec<(String, Vec<u8>)> = self
            .files
            .iter()
            .map(|file| {
                let bytes = fs::read(root().join(&file.path)).unwrap();
                assert_eq!(sha256(&bytes), file.sha256, "{} is not what the index says", file.path);
                let name = match file.path.strip_prefix(&base) {
                    Some(name) => name.to_owned(),
                    None => format!("../{}", file.path.strip_prefix(&outside).unwrap()),
                };
                (name, bytes)
            })
            .collect();
        files.sort_by_key(|(name, _)| (name != "header.json", name.clone()));
        files
    }

    /// The bytes of the one file that it is.
    pub fn bytes(&self) -> Vec<u8> {
        self.file(&self.path)
    }

    /// The bytes of one of its files.
    pub fn file(&self, path: &str) -> Vec<u8> {
        let file = self.files.iter().find(|file| file.path == path).unwrap();
        let bytes = bytes(path);
        assert_eq!(sha256(&bytes), file.sha256, "{path} is not what the index says");
        bytes
    }

    /// A checkpoint among its files: the files of a directory, `header.json` first.
    pub fn checkpoint(&self, directory: &str) -> Vec<(String, Vec<u8>)> {
        let prefix = format!("{directory}/");
        let mut files: Vec<(String, Vec<u8>)> = self
            .files
            .iter()
            .filter_map(|file| Some((file.path.strip_prefix(&prefix)?.to_owned(), self.file(&file.path))))
            .collect();
        files.sort_by_key(|(name, _)| (name != "header.json", name.clone()));
        files
    }

    /// The codes with which a refusal is right.
    pub fn codes(&self) -> Vec<&str> {
        let also = self.expect["also_ok"].as_array().into_iter().flatten();
        std::iter::once(&self.expect["code"]).chain(also).map(|code| code.as_str().unwrap()).collect()
    }

    pub fn accepted(&self) -> bool {
        self.expect["outcome"] == "accept"
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lensemble")
}

/// The bytes of a file among the vectors.
pub fn bytes(path: &str) -> Vec<u8> {
    fs::read(root().join(path)).unwrap()
}

/// Every vector of a kind.
pub fn vectors(kind: &str) -> Vec<Vector> {
    #[derive(Deserialize)]
    struct Index {
        vectors: Vec<serde_json::Value>,
    }
    let index: Index = serde_json::from_slice(&fs::read(root().join("index.json")).unwrap()).unwrap();
    let of_kind = index.vectors.into_iter().filter(|vector| vector["kind"] == kind);
    of_kind.map(|vector| serde_json::from_value(vector).unwrap()).collect()
}
