//! Valid checkpoints, made without any code of the program: hashes, containers and headers are written down anew here
//! from the specification, so that both sides would have to be wrong in the same way.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::archive;
use super::rng::Rng;

pub const SINGLE: &str = "weights.safetensors";
pub const INDEX: &str = "weights.index.json";

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Element types, in the order in which the safetensors writer lays them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dtype {
    F32,
    Bf16,
    F16,
}

impl Dtype {
    pub fn code(self) -> &'static str {
        ["F32", "BF16", "F16"][self as usize]
    }

    pub fn token(self) -> &'static str {
        ["float32", "bfloat16", "float16"][self as usize]
    }

    pub fn width(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
}

impl Tensor {
    fn group(&self) -> &str {
        self.name.split('.').next().unwrap()
    }
}

/// A checkpoint as it would lie in a directory, and everything that can be known of it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub content_hash: String,
    pub header: Vec<u8>,
    /// Weight files in order, then the index if there is one.
    pub files: Vec<(String, Vec<u8>)>,
    /// Name and bytes of each group under bare names.
    pub groups: Vec<(String, Vec<u8>)>,
    /// In name order.
    pub tensors: Vec<Tensor>,
}

impl Checkpoint {
    pub fn tar(&self) -> Vec<u8> {
        let header = ("header.json", self.header.as_slice());
        archive::archive(std::iter::once(header).chain(self.files.iter().map(|(name, data)| (&**name, &**data))))
    }

    pub fn path(&self) -> String {
        format!("/v1/artifacts/{}", self.content_hash)
    }

    pub fn file(&self, name: &str) -> &[u8] {
        &self.files.iter().find(|(told, _)| told == name).unwrap().1
    }
}

#[derive(Clone, Debug)]
pub struct CheckpointBuilder {
    rng: Rng,
    tensors: Vec<Tensor>,
    shards: usize,
    shuffled: bool,
    index: bool,
    metadata: bool,
    header: Value,
}

impl CheckpointBuilder {
    /// A checkpoint without tensors yet; what is random about it follows from the seed.
    pub fn empty(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let config_hash = hex(&rng.bytes(32));
        let header = json!({
            "schema_version": 2,
            "parent_hash": null,
            "wmcp_version": "wmcp-1.0.0",
            "round_index": 0,
            "config_hash": config_hash,
            "param_groups": ["encoder", "predictor"],
            "created_at": "2026-06-11T09:48:18.123690Z",
            "model_arch": null,
        });
        Self { rng, tensors: Vec::new(), shards: 1, shuffled: false, index: false, metadata: true, header }
    }

    /// A small one: two groups, a few fp32 tensors.
    pub fn new(seed: u64) -> Self {
        let builder = Self::empty(seed);
        let names = ["encoder.a.weight", "encoder.b", "predictor.a.weight", "predictor.z"];
        names.iter().zip([16, 7, 40, 1]).fold(builder, |builder, (name, len)| builder.tensor(name, Dtype::F32, &[len]))
    }

    /// About this many bytes in `count` fp32 tensors.
    pub fn sized(seed: u64, bytes: u64, count: u64) -> Self {
        (0..count).fold(Self::empty(seed), |builder, index| {
            let group = if index * 4 < count * 3 { "encoder" } else { "predictor" };
            builder.tensor(&format!("{group}.t{index:04}"), Dtype::F32, &[(bytes / count / 4).max(1)])
        })
    }

    /// Anything that is allowed: types, shapes, shards, layouts.
    pub fn random(seed: u64) -> Self {
        let mut builder = Self::empty(seed);
        let count = builder.rng.between(1, 12);
        for index in 0..count {
            let dtype = [Dtype::F32, Dtype::Bf16, Dtype::F16][builder.rng.below(3) as usize];
            let shape: Vec<u64> = (0..builder.rng.below(4)).map(|_| builder.rng.below(9)).collect();
            let group = if builder.rng.below(3) == 0 { "predictor" } else { "encoder" };
            builder = builder.tensor(&format!("{group}.layer.{index}.w"), dtype, &shape);
        }
        builder.shards = builder.rng.between(1, count.min(4)) as usize;
        builder.shuffled = builder.rng.below(2) == 0;
        builder.index = builder.rng.below(3) == 0;
        builder.metadata = builder.rng.below(2) == 0;
        builder
    }

    pub fn tensor(mut self, name: &str, dtype: Dtype, shape: &[u64]) -> Self {
        let data = self.rng.bytes((dtype.width() * shape.iter().product::<u64>()) as usize);
        self.tensors.push(Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), data });
        self
    }

    /// Moves on in the numbers, so that what follows differs from what would have been.
    pub fn skip(mut self, bytes: usize) -> Self {
        self.rng.bytes(bytes);
        self
    }

    pub fn shards(mut self, count: usize) -> Self {
        self.shards = count;
        self
    }

    /// Tensors in any file and in any order within it.
    pub fn shuffled(mut self) -> Self {
        self.shuffled = true;
        self
    }

    /// With a `weights.index.json`.
    pub fn index(mut self) -> Self {
        self.index = true;
        self
    }

    /// Sets any field of the header.
    pub fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.header[field] = value.into();
        self
    }

    pub fn parent(self, parent: &Checkpoint, round: u64) -> Self {
        self.set("parent_hash", parent.content_hash.as_str()).set("round_index", round)
    }

    pub fn build(mut self) -> Checkpoint {
        self.tensors.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        let files = self.files();
        let content_hash = self.content_hash();
        let names: Vec<&String> = files.iter().map(|(name, _)| name).filter(|name| *name != INDEX).collect();
        self.header["content_hash"] = content_hash.as_str().into();
        self.header["weight_files"] = json!(names);
        self.header["tensor_manifest"] = self
            .tensors
            .iter()
            .map(|t| json!({"name": t.name, "group": t.group(), "dtype": t.dtype.token(), "shape": t.shape}))
            .collect();
        let group = |name: &str| {
            let prefix = format!("{name}.");
            let mut members: Vec<&Tensor> = self.tensors.iter().filter(|t| t.name.starts_with(&prefix)).collect();
            members.sort_by_key(|t| t.dtype);
            let members: Vec<_> = members.iter().map(|t| (&t.name[prefix.len()..], *t)).collect();
            (!members.is_empty()).then(|| (name.to_owned(), container(&members, false)))
        };
        Checkpoint {
            content_hash,
            header: serde_json::to_vec_pretty(&self.header).unwrap(),
            groups: ["encoder", "predictor"].into_iter().filter_map(group).collect(),
            files,
            tensors: self.tensors,
        }
    }

    fn files(&mut self) -> Vec<(String, Vec<u8>)> {
        let (count, total) = (self.shards, self.tensors.len());
        let mut order: Vec<usize> = (0..total).collect();
        if self.shuffled {
            self.rng.shuffle(&mut order);
        }
        let mut files = Vec::new();
        let mut places = serde_json::Map::new();
        for shard in 0..count {
            let mut held: Vec<&Tensor> =
                order[shard * total / count..(shard + 1) * total / count].iter().map(|at| &self.tensors[*at]).collect();
            if !self.shuffled {
                held.sort_by_key(|t| t.dtype);
            }
            let name =
                if count == 1 { SINGLE.to_owned() } else { format!("weights-{shard:05}-of-{count:05}.safetensors") };
            places.extend(held.iter().map(|t| (t.name.clone(), name.as_str().into())));
            let held: Vec<_> = held.into_iter().map(|t| (t.name.as_str(), t)).collect();
            files.push((name, container(&held, self.metadata)));
        }
        if self.index {
            let bytes: usize = self.tensors.iter().map(|t| t.data.len()).sum();
            let index = json!({"metadata": {"total_size": bytes}, "weight_map": places});
            files.push((INDEX.to_owned(), serde_json::to_vec(&index).unwrap()));
        }
        files
    }

    fn content_hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(b"lensemble/artifact/v1\0tensors\0");
        for t in &self.tensors {
            hasher.update(canonical_frame(&t.name, t.dtype, &t.shape));
            hasher.update(&t.data);
        }
        hasher.update(canonical_end(&self.header));
        hex(&hasher.finalize())
    }
}

/// What stands in front of a tensor's bytes in the canonical stream.
pub fn canonical_frame(name: &str, dtype: Dtype, shape: &[u64]) -> Vec<u8> {
    let mut frame = (name.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(name.as_bytes());
    frame.push(dtype.token().len() as u8);
    frame.extend_from_slice(dtype.token().as_bytes());
    frame.extend_from_slice(&(shape.len() as u32).to_le_bytes());
    shape.iter().for_each(|dim| frame.extend_from_slice(&dim.to_le_bytes()));
    frame
}

/// What stands behind the last tensor.
pub fn canonical_end(header: &Value) -> Vec<u8> {
    let mut groups: Vec<&str> = header["param_groups"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    groups.sort_unstable();
    let text = format!(
        r#"{{"param_groups":{},"parent_hash":"{}","round_index":{},"schema_version":{},"wmcp_version":{}}}"#,
        serde_json::to_string(&groups).unwrap(),
        header["parent_hash"].as_str().unwrap_or(""),
        header["round_index"],
        header["schema_version"],
        header["wmcp_version"],
    );
    let mut out = b"\0struct\0".to_vec();
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

/// A safetensors file of these tensors, in this order.
pub fn container(tensors: &[(&str, &Tensor)], metadata: bool) -> Vec<u8> {
    let mut out = container_head(
        tensors.iter().map(|(name, t)| (*name, t.dtype, t.shape.as_slice(), t.data.len() as u64)),
        metadata,
    );
    tensors.iter().for_each(|(_, t)| out.extend_from_slice(&t.data));
    out
}

/// Everything in front of the element bytes.
pub fn container_head<'a>(tensors: impl Iterator<Item = (&'a str, Dtype, &'a [u64], u64)>, metadata: bool) -> Vec<u8> {
    let mut parts = Vec::new();
    if metadata {
        parts.push(r#""__metadata__":{"format":"pt"}"#.to_owned());
    }
    let mut at = 0;
    for (name, dtype, shape, len) in tensors {
        let (name, shape, end) = (serde_json::to_string(name).unwrap(), json!(shape), at + len);
        parts.push(format!(r#"{name}:{{"dtype":"{}","shape":{shape},"data_offsets":[{at},{end}]}}"#, dtype.code()));
        at = end;
    }
    let mut text = format!("{{{}}}", parts.join(","));
    while text.len() % 8 != 0 {
        text.push(' ');
    }
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out
}
