//! Checkpoints far larger than a test should hold: every byte follows from its place.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::archive::{Member, member};
use super::checkpoint::{Dtype, SINGLE, canonical_end, canonical_frame, container_head, hex};
use super::rng::Rng;

const CHUNK: usize = 1 << 20;

/// One large tensor in the one file.
#[derive(Clone)]
pub struct Generated {
    pub content_hash: String,
    pub header: Vec<u8>,
    pub file_hash: String,
    pub group_hash: String,
    pub file_len: u64,
    head: Vec<u8>,
    block: Bytes,
    chunks: u64,
}

pub type Body = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

impl Generated {
    /// With this many MiB of element bytes.
    pub fn new(seed: u64, chunks: u64) -> Self {
        let mut block = Rng::new(seed).bytes(CHUNK);
        block[..8].copy_from_slice(&seed.to_le_bytes());
        let len = chunks * CHUNK as u64;
        let (name, shape) = ("encoder.large", [len / 4]);
        let head = container_head([(name, Dtype::F32, &shape[..], len)].into_iter(), true);
        let mut header = json!({
            "schema_version": 2, "parent_hash": null, "wmcp_version": "wmcp-1.0.0", "round_index": 0,
            "config_hash": "0".repeat(64), "param_groups": ["encoder", "predictor"],
            "created_at": "2026-06-11T09:48:18Z", "weight_files": [SINGLE],
            "tensor_manifest": [{"name": name, "group": "encoder", "dtype": "float32", "shape": shape}],
        });
        let mut own = Self {
            content_hash: String::new(),
            header: Vec::new(),
            file_hash: String::new(),
            group_hash: String::new(),
            file_len: head.len() as u64 + len,
            head,
            block: block.into(),
            chunks,
        };
        let group = container_head([("large", Dtype::F32, &shape[..], len)].into_iter(), false);
        let canonical =
            [b"lensemble/artifact/v1\0tensors\0".to_vec(), canonical_frame(name, Dtype::F32, &shape)].concat();
        let [content_hash, file_hash, group_hash] =
            [(canonical, canonical_end(&header)), (own.head.clone(), Vec::new()), (group, Vec::new())].map(
                |(front, end)| {
                    let mut hasher = Sha256::new_with_prefix(front);
                    (0..chunks).for_each(|number| hasher.update(own.chunk(number)));
                    hasher.update(end);
                    hex(&hasher.finalize())
                },
            );
        header["content_hash"] = content_hash.as_str().into();
        own.header = serde_json::to_vec(&header).unwrap();
        (own.content_hash, own.file_hash, own.group_hash) = (content_hash, file_hash, group_hash);
        own
    }

    /// The block with its number in front, so that no two chunks are alike.
    fn chunk(&self, number: u64) -> Bytes {
        let mut chunk = self.block.to_vec();
        chunk[8..16].copy_from_slice(&number.to_le_bytes());
        chunk.into()
    }

    /// The weight file.
    pub fn file(&self) -> Body {
        let own = self.clone();
        let chunks = stream::iter(0..self.chunks).map(move |number| Ok(own.chunk(number)));
        Box::pin(stream::iter([Ok(Bytes::from(self.head.clone()))]).chain(chunks))
    }

    /// The archive.
    pub fn tar(&self) -> Body {
        let mut front = member(&Member::file("header.json", self.header.len()), &self.header);
        let mut told = Member::file(SINGLE, 0);
        told.size = self.file_len;
        front.extend_from_slice(&told.block());
        let end = vec![0; (512 - self.file_len as usize % 512) % 512 + 1024];
        let front = stream::iter([Ok(Bytes::from(front))]);
        Box::pin(front.chain(self.file()).chain(stream::iter([Ok(Bytes::from(end))])))
    }
}
