//! The intake of one file: its checks and its own digest.

use std::sync::Arc;

use crate::core::checkpoint::Header;
use crate::core::error::DomainError;
use crate::core::limits::Limits;
use crate::core::safetensors::decoder::Decoder;
use crate::core::safetensors::header::Container;
use crate::core::sha256::Sha256;

/// One file as it arrives: its decoder and its own digest. Files of one artifact may arrive in parallel.
pub struct FileIntake {
    pub(super) index: usize,
    pub(super) body: Body,
    pub(super) hasher: Sha256,
}

/// What kind of file it is.
pub(super) enum Body {
    Weights(Decoder),
    /// `weights.index.json`, kept to be compared with the shards at the end.
    Index {
        text: Vec<u8>,
        limit: u64,
    },
}

impl FileIntake {
    /// A file at its first byte; `declared` is its length where the transport says so.
    #[must_use]
    pub fn new(header: &Header, index: usize, declared: Option<u64>, limits: &Limits) -> Self {
        let body = if index < header.weight_files.len() {
            Body::Weights(Decoder::new(declared, *limits))
        } else {
            Body::Index { text: Vec::new(), limit: limits.index_bytes }
        };
        Self { index, body, hasher: Sha256::new() }
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn seen(&self) -> u64 {
        match &self.body {
            Body::Weights(decoder) => decoder.seen(),
            Body::Index { text, .. } => text.len() as u64,
        }
    }

    /// The length of the whole file, once its header is known.
    #[must_use]
    pub fn expected_len(&self) -> Option<u64> {
        match &self.body {
            Body::Weights(decoder) => decoder.container().map(|container| container.file_len),
            Body::Index { .. } => None,
        }
    }

    /// The container's header, once it is known.
    #[must_use]
    pub const fn container(&self) -> Option<&Arc<Container>> {
        match &self.body {
            Body::Weights(decoder) => decoder.container(),
            Body::Index { .. } => None,
        }
    }

    /// Drops the list of tensors once the file has been placed; see [`Decoder::release_tensors`].
    pub fn release_tensors(&mut self) {
        if let Body::Weights(decoder) = &mut self.body {
            decoder.release_tensors();
        }
    }

    /// Checks the next bytes without hashing them; true when the container's header became known.
    ///
    /// # Errors
    /// As [`Decoder::push`].
    pub fn check(&mut self, chunk: &[u8]) -> Result<bool, DomainError> {
        match &mut self.body {
            Body::Weights(decoder) => decoder.push(chunk),
            Body::Index { text, limit } => {
                if (text.len() + chunk.len()) as u64 > *limit {
                    return Err(DomainError::integrity("weights.index.json is larger than an index may be")
                        .field("limit", *limit));
                }
                text.extend_from_slice(chunk);
                Ok(false)
            }
        }
    }

    /// Counts bytes that were checked before, after a restart; see [`Decoder::skip`].
    pub fn skip(&mut self, len: u64) -> bool {
        match &mut self.body {
            Body::Weights(decoder) => decoder.skip(len),
            Body::Index { .. } => len == 0,
        }
    }

    /// Starts the file's own digest again; its bytes have to be absorbed anew.
    pub fn restart_digest(&mut self) {
        self.hasher = Sha256::new();
    }

    /// Position of this file in the artifact.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Hashes bytes into this file's own digest only.
    pub fn hash(&mut self, chunk: &[u8]) {
        self.hasher.update(chunk);
    }

    /// The saved state of this file's own digest.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.hasher.save().to_vec()
    }

    /// Continues the digest from a saved state, if that is one over exactly the bytes seen.
    pub fn restore(&mut self, state: &[u8]) -> bool {
        match Sha256::restore(state) {
            Some(hasher) if hasher.len() == self.seen() => {
                self.hasher = hasher;
                true
            }
            _ => false,
        }
    }
}
