//! The closed limits of what the registry takes in, as plain data.

/// Sizes and counts above which an artifact is refused before it costs anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of `header.json`.
    pub header_bytes: u64,
    /// Bytes of the JSON text at the front of a safetensors file.
    pub container_header_bytes: u64,
    /// Bytes of `weights.index.json`.
    pub index_bytes: u64,
    /// Tensors in one checkpoint.
    pub tensors: usize,
    /// Dimensions of one tensor.
    pub rank: usize,
    /// UTF-8 bytes of a tensor's name.
    pub name_bytes: usize,
    /// Weight files of one checkpoint.
    pub shards: usize,
    /// Bytes of one stored file.
    pub file_bytes: u64,
    /// Bytes of all weight files of a checkpoint together.
    pub artifact_bytes: u64,
}

impl Limits {
    /// What every known Lensemble configuration fits into many times over.
    pub const DEFAULT: Self = Self {
        header_bytes: 16 << 20,
        container_header_bytes: 16 << 20,
        index_bytes: 16 << 20,
        tensors: 100_000,
        rank: 8,
        name_bytes: 512,
        shards: 1024,
        file_bytes: 64 << 30,
        artifact_bytes: 256 << 30,
    };

    /// None but the format's own, for reading what is stored: it was taken in under the limits of its time.
    pub const STORED: Self = Self {
        header_bytes: u64::MAX,
        container_header_bytes: 100_000_000,
        index_bytes: u64::MAX,
        tensors: usize::MAX,
        rank: usize::MAX,
        name_bytes: usize::MAX,
        shards: usize::MAX,
        file_bytes: u64::MAX,
        artifact_bytes: u64::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
