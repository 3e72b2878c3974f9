//! One list of everything that can be fetched of a checkpoint, so that no test forgets a route.

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, Dtype, sha256};

/// Something that can be fetched, and what it must be.
pub struct Resource {
    pub path: String,
    pub bytes: Vec<u8>,
    pub content_type: &'static str,
    /// The hash of the whole is known to the server.
    pub hashed: bool,
    /// Its bytes lie in stored files, and not in the database.
    pub stored: bool,
}

/// A checkpoint with two shards and all three element types, so that groups are gathered from both files.
pub fn checkpoint(seed: u64) -> Checkpoint {
    let builder = CheckpointBuilder::empty(seed)
        .tensor("encoder.a", Dtype::F16, &[3, 5])
        .tensor("encoder.b", Dtype::F32, &[40_000])
        .tensor("encoder.empty", Dtype::F32, &[0])
        .tensor("encoder.scalar", Dtype::Bf16, &[])
        .tensor("predictor.c", Dtype::Bf16, &[70_001])
        .tensor("predictor.d", Dtype::F32, &[9, 9]);
    builder.shards(2).shuffled().index().build()
}

/// Every GET of bytes that it has.
pub fn resources(checkpoint: &Checkpoint) -> Vec<Resource> {
    let path = checkpoint.path();
    let binary = "application/octet-stream";
    let of = |path: String, bytes: &[u8], content_type, hashed| {
        let stored = !path.ends_with("/header.json");
        Resource { path, bytes: bytes.to_vec(), content_type, hashed, stored }
    };
    let mut all = vec![
        of(format!("{path}/header.json"), &checkpoint.header, "application/json", true),
        of(format!("{path}/archive.tar"), &archive(checkpoint), "application/x-tar", false),
    ];
    all.extend(checkpoint.files.iter().map(|(name, bytes)| of(format!("{path}/files/{name}"), bytes, binary, true)));
    for (name, bytes) in &checkpoint.groups {
        all.push(of(format!("{path}/groups/{name}.safetensors"), bytes, binary, true));
        all.push(of(format!("/v1/params/{}", sha256(bytes)), bytes, binary, true));
    }
    let tensors = checkpoint.tensors.iter();
    all.extend(tensors.map(|tensor| of(format!("{path}/tensors/{}", tensor.name), &tensor.data, binary, false)));
    all
}

/// What the archive must be: the directory in plain ustar, with fixed times and owners.
fn archive(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut out = checkpoint.tar();
    let files = std::iter::once(checkpoint.header.len()).chain(checkpoint.files.iter().map(|(_, data)| data.len()));
    let mut at = 0;
    for len in files {
        let block = &mut out[at..at + 512];
        block[108..124].copy_from_slice(b"0000000\x000000000\0");
        block[136..148].copy_from_slice(b"00000000000\0");
        block[265..329].fill(0);
        crate::support::archive::checksum(block);
        at += 512 + len.next_multiple_of(512);
    }
    out
}
