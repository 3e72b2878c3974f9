//! Checkpoints to test with: the golden ones, and what is made of them.

use std::path::{Path, PathBuf};

use cairn::core::checkpoint::Header;
use cairn::core::limits::Limits;
use cairn::core::tar;

/// A checkpoint in memory.
pub struct Sample {
    /// The bytes of `header.json`.
    pub header: Vec<u8>,
    /// The weight files by name, in the order of the header.
    pub files: Vec<(String, Vec<u8>)>,
}

/// The golden checkpoints' directory.
pub fn golden() -> PathBuf {
    Path::new("tests/golden/lensemble/checkpoints").to_owned()
}

impl Sample {
    /// A golden checkpoint.
    pub fn golden(name: &str) -> Self {
        let dir = golden().join(name);
        let header = std::fs::read(dir.join("header.json")).unwrap();
        let names = Header::parse(&header, &Limits::DEFAULT).unwrap().weight_files;
        let files = names.into_iter().map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap())).collect();
        Self { header, files }
    }

    /// The header, read.
    pub fn parsed(&self) -> Header {
        Header::parse(&self.header, &Limits::DEFAULT).unwrap()
    }

    /// The directory as an archive.
    pub fn archive(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut add = |name: &str, data: &[u8]| {
            out.extend_from_slice(&tar::file_header(name, data.len() as u64));
            out.extend_from_slice(data);
            out.extend_from_slice(tar::file_padding(data.len() as u64));
        };
        add("header.json", &self.header);
        self.files.iter().for_each(|(name, data)| add(name, data));
        out.extend_from_slice(tar::END);
        out
    }
}
