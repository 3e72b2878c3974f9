//! The intake of a whole artifact: the first byte chooses one, the others are steps.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use cairn_fuzz::checks::{self, Artifact};

/// One file or several, one element type or several, in and out of order, empty tensors.
const NAMES: [&str; 6] =
    ["shards-3", "shards-7", "mixed-dtypes-sharded", "layout-shuffled", "shards-out-of-name-order", "zero-size"];

static ARTIFACTS: LazyLock<Vec<Artifact>> = LazyLock::new(|| {
    let read = |name: &&str| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/lensemble/checkpoints").join(name);
        let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
        // The names are numbered, so their order is that of the header.
        files.sort();
        Artifact {
            header: std::fs::read(dir.join("header.json")).unwrap(),
            files: files.iter().map(|path| std::fs::read(path).unwrap()).collect(),
        }
    };
    NAMES.iter().map(read).collect()
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((choice, steps)) = data.split_first() {
        checks::intake(&ARTIFACTS[usize::from(*choice) % ARTIFACTS.len()], steps);
    }
});
