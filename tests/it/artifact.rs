//! Artifacts made from nothing, and hashed a second time without the code under test.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};

/// A tensor to be put somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
    /// Where it goes: a shard, and a place in it.
    pub place: u32,
}

/// An artifact, and its hashes computed in the plainest way.
#[derive(Clone, Debug)]
pub(crate) struct Artifact {
    pub header: String,
    pub files: Vec<(String, Vec<u8>)>,
    pub content_hash: String,
    pub groups: BTreeMap<String, String>,
    /// Bytes of the header that no hash covers.
    pub free: Vec<Range<usize>>,
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an element type is called in a container and in a header, and its width.
pub(crate) fn codes(dtype: Dtype) -> (&'static str, &'static str, usize) {
    match dtype {
        Dtype::F32 => ("F32", "float32", 4),
        Dtype::F16 => ("F16", "float16", 2),
        _ => ("BF16", "bfloat16", 2),
    }
}

impl Artifact {
    /// Writes it to a directory of its own.
    pub(crate) fn write(&self) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("header.json"), &self.header).unwrap();
        for (name, bytes) in &self.files {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        directory
    }

    /// Bytes of all files but the header.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

/// A checkpoint of about `megabytes` in `shards` files, different for each `seed`.
pub(crate) fn large(seed: u8, megabytes: usize, shards: usize) -> Artifact {
    let mut state = u64::from(seed) | 1 << 32;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let tensors = (0..megabytes).map(|index| {
        let group = if index % 2 == 0 { "encoder" } else { "predictor" };
        let data = (0..1 << 20).map(|_| random()).collect();
        let tensor = Tensor { dtype: Dtype::F32, shape: vec![512, 512], data, place: index as u32 };
        (format!("{group}.layer.{index}"), tensor)
    });
    build(&tensors.collect(), shards, u64::from(seed), 2)
}

/// Puts tensors into `shards` files and writes the header that belongs to them.
pub(crate) fn build(tensors: &BTreeMap<String, Tensor>, shards: usize, round: u64, version: u32) -> Artifact {
    let shards = shards.min(tensors.len());
    let mut groups: Vec<&str> = tensors.keys().map(|name| name.split('.').next().unwrap()).collect();
    groups.dedup();
    let parent = if round == 0 { String::new() } else { hex(&Sha256::digest(round.to_le_bytes())) };

    let mut stream = b"lensemble/artifact/v1\0tensors\0".to_vec();
    for (name, tensor) in tensors {
        let (_, token, _) = codes(tensor.dtype);
        stream.extend((name.len() as u32).to_le_bytes());
        stream.extend(name.as_bytes());
        stream.push(token.len() as u8);
        stream.extend(token.as_bytes());
        stream.extend((tensor.shape.len() as u32).to_le_bytes());
        stream.extend(tensor.shape.iter().flat_map(|dim| (*dim as u64).to_le_bytes()));
        stream.extend(&tensor.data);
    }
    let list = format!("[{}]", groups.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(","));
    let frame = format!(
        r#"{{"param_groups":{list},"parent_hash":"{parent}","round_index":{round},"schema_version":{version},"wmcp_version":"wmcp-1.0.0"}}"#
    );
    stream.extend(b"\0struct\0");
    stream.extend((frame.len() as u32).to_le_bytes());
    stream.extend(frame.as_bytes());
    let content_hash = hex(&Sha256::digest(&stream));

    // The first tensors make sure that no shard is empty; the others go anywhere.
    let mut placed: Vec<Vec<(&String, &Tensor)>> = vec![Vec::new(); shards];
    for (index, pair) in tensors.iter().enumerate() {
        let shard = if index < shards { index } else { pair.1.place as usize % shards };
        placed[(shard + round as usize) % shards].push(pair);
    }
    let names: Vec<String> = match shards {
        1 => vec!["weights.safetensors".to_owned()],
        _ => (0..shards).map(|index| format!("weights-{index:05}-of-{shards:05}.safetensors")).collect(),
    };
    let files = names.iter().cloned().zip(placed.into_iter().map(container)).collect();

    let (header, free) = header(tensors, &names, (&content_hash, &parent), (round, version, &list));
    Artifact { header, files, groups: group_hashes(tensors), content_hash, free }
}

/// A safetensors file whose tensors lie in an order of their own.
fn container(mut tensors: Vec<(&String, &Tensor)>) -> Vec<u8> {
    tensors.sort_by_key(|(_, tensor)| tensor.place);
    let mut offset = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, tensor)| {
            let begin = offset;
            offset += tensor.data.len();
            let (code, _, _) = codes(tensor.dtype);
            format!(r#""{name}":{{"dtype":"{code}","shape":{:?},"data_offsets":[{begin},{offset}]}}"#, tensor.shape)
                .replace(' ', "")
        })
        .collect();
    let json = format!("{{{}}}", entries.join(","));
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.extend(tensors.iter().flat_map(|(_, tensor)| &tensor.data));
    bytes
}

/// The header's text, and where in it lies what no hash covers.
fn header(
    tensors: &BTreeMap<String, Tensor>,
    names: &[String],
    (content_hash, parent): (&str, &str),
    (round, version, groups): (u64, u32, &str),
) -> (String, Vec<Range<usize>>) {
    let manifest: Vec<String> = tensors
        .iter()
        .map(|(name, tensor)| {
            let group = name.split('.').next().unwrap();
            let (_, token, _) = codes(tensor.dtype);
            format!(r#"{{"name":"{name}","group":"{group}","dtype":"{token}","shape":{:?}}}"#, tensor.shape)
        })
        .collect();
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    let mut text = String::new();
    let mut free = Vec::new();
    let mut put = |part: &str, is_free: bool| {
        if is_free {
            free.push(text.len()..text.len() + part.len());
        }
        text.push_str(part);
    };
    put(&format!(r#"{{"schema_version":{version},"content_hash":"{content_hash}","parent_hash":{parent},"#), false);
    put(&format!(r#""wmcp_version":"wmcp-1.0.0","round_index":{round},"config_hash":""#), false);
    put(&"a5".repeat(32), true);
    put(&format!(r#"","param_groups":{groups},"tensor_manifest":[{}],"#, manifest.join(",")), false);
    put(&format!(r#""weight_files":{names:?},"created_at":""#), false);
    put("2026-06-11T09:31:01Z", true);
    put("\"}", false);
    (text, free)
}

/// H2 by the safetensors crate itself.
fn group_hashes(tensors: &BTreeMap<String, Tensor>) -> BTreeMap<String, String> {
    let mut groups = BTreeMap::new();
    for group in ["encoder", "predictor"] {
        let members = tensors.iter().filter_map(|(name, tensor)| {
            let bare = name.strip_prefix(group)?.strip_prefix('.')?;
            Some((bare, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.data).unwrap()))
        });
        let members: Vec<_> = members.collect();
        if !members.is_empty() {
            let bytes = safetensors::serialize(members, None).unwrap();
            groups.insert(group.to_owned(), hex(&Sha256::digest(bytes)));
        }
    }
    groups
}
