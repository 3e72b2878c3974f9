//! The JSON text at the front of a probe file, and the text that stands for it in the probe's hashes.

use crate::core::digest::ProbeHash;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Fields, Value};

const CODE: ErrorCode = ErrorCode::ProbeInvalid;

const LANDMARKS: &str = "landmark_idx";
const TARGETS: &str = "landmark_targets";
const POINTS: &str = "points";

const ALGORITHM: &str = "sha256-lensemble-public-probe-v2";

/// Most dimensions of a tensor.
const MAX_RANK: usize = 8;

/// Element types of points and targets with their widths, in the order in which the safetensors writer lays them out.
/// The landmarks' `I64` comes before all of them.
const FLOATS: [(&str, u64); 4] = [("F64", 8), ("F32", 4), ("BF16", 2), ("F16", 2)];

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    name: &'static str,
    dtype: &'static str,
    /// Its place in the writer's order of element types.
    rank: usize,
    pub(super) shape: Vec<u64>,
    pub(super) len: u64,
    offsets: [u64; 2],
}

/// The header after every check that needs no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) content_hash: ProbeHash,
    pub(super) probe_version: u64,
    /// In the order of their bytes, which begins with the landmarks' indices.
    tensors: [Tensor; 3],
}

impl Header {
    /// Reads the header, padding included.
    pub(super) fn parse(text: &[u8]) -> Result<Self, DomainError> {
        let json = text.trim_ascii_end();
        if text.first() != Some(&b'{') || text[json.len()..].iter().any(|byte| *byte != b' ') {
            return Err(DomainError::new(CODE, "the header of the probe is not an object padded with blanks"));
        }
        let value = Value::parse(json)
            .map_err(|why| DomainError::new(CODE, format!("the header of the probe is not valid: {why}")))?;
        let mut fields = Fields::of(value, "probe", CODE)?;
        let mut metadata = fields.object("__metadata__").map_err(|error| {
            error.remedy(
                "Save the probe with Lensemble's save_probe; one without metadata of version 2 binds no targets.",
            )
        })?;
        // The version comes before the other fields: older probes have hashes that do not cover the targets.
        let current =
            metadata.string("content_hash_algorithm")? == ALGORITHM && metadata.string("content_hash_version")? == "2";
        if !current {
            return Err(metadata
                .refuse("content_hash_algorithm", "is not that of version 2, or content_hash_version is not 2")
                .remedy("Build the probe again from the reference encoder; older hashes do not bind its targets."));
        }
        let content_hash = metadata.digest("content_hash")?;
        let text = metadata.string("probe_version")?;
        let probe_version = text
            .parse::<u64>()
            .ok()
            .filter(|version| (1..=i64::MAX.unsigned_abs()).contains(version) && version.to_string() == text)
            .ok_or_else(|| metadata.refuse("probe_version", "must be a decimal number from 1 to 2^63 - 1"))?;
        metadata.done()?;
        let mut tensors = [
            Tensor::read(&mut fields, LANDMARKS)?,
            Tensor::read(&mut fields, TARGETS)?,
            Tensor::read(&mut fields, POINTS)?,
        ];
        fields.done()?;
        tensors.sort_by_key(|tensor| (tensor.rank, tensor.name));
        let header = Self { content_hash, probe_version, tensors };
        header.check_layout()?;
        header.check_shapes()?;
        Ok(header)
    }

    /// Another order than the writer's, a gap or an overlap: the writer makes none of them, and hashes cover its order.
    fn check_layout(&self) -> Result<(), DomainError> {
        let mut end = 0u64;
        for tensor in &self.tensors {
            let next = end.checked_add(tensor.len);
            if tensor.offsets[0] != end || next != Some(tensor.offsets[1]) {
                return Err(DomainError::new(
                    CODE,
                    "the probe's tensors do not lie where the safetensors writer puts tensors of their shapes",
                )
                .field("tensor", tensor.name));
            }
            end = tensor.offsets[1];
        }
        Ok(())
    }

    fn check_shapes(&self) -> Result<(), DomainError> {
        let (landmarks, targets, points) = (self.landmarks(), self.find(TARGETS), self.points());
        let refuse = |message: &str| DomainError::new(CODE, message.to_owned());
        let ([k], [targets_k, _, _]) = (&*landmarks.shape, &*targets.shape) else {
            return Err(refuse("landmark_idx must have one dimension and landmark_targets three"));
        };
        if points.shape.first().is_none_or(|count| *count == 0) {
            return Err(refuse("the probe has no points"));
        }
        if k != targets_k {
            return Err(refuse("landmark_idx and landmark_targets disagree on the number of landmarks")
                .field("num_landmarks", *k)
                .field("num_targets", *targets_k));
        }
        if targets.shape.contains(&0) {
            return Err(refuse("the probe has no landmark targets"));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> &Tensor {
        // All three are there, so the first is never taken for another.
        self.tensors.iter().find(|tensor| tensor.name == name).unwrap_or(&self.tensors[0])
    }

    pub(super) fn landmarks(&self) -> &Tensor {
        self.find(LANDMARKS)
    }

    /// Shape of the targets; three dimensions by now.
    pub(super) fn target_dims(&self) -> [u64; 3] {
        <[u64; 3]>::try_from(&*self.find(TARGETS).shape).unwrap_or_default()
    }

    pub(super) fn points(&self) -> &Tensor {
        self.find(POINTS)
    }

    /// Where the points begin among the data.
    pub(super) fn points_start(&self) -> u64 {
        self.points().offsets[0]
    }

    /// Bytes of data.
    pub(super) fn data_len(&self) -> u64 {
        self.tensors[2].offsets[1]
    }

    /// What stands before the data in the preimage of the full hash: domain, length, header without metadata.
    pub(super) fn full_preamble(&self) -> Vec<u8> {
        preamble(b"lensemble.public-probe\0v2\0", &self.tensors.each_ref())
    }

    /// The same for the hash of the source, which leaves out the targets.
    pub(super) fn source_preamble(&self) -> Vec<u8> {
        preamble(b"lensemble.probe-source\0v1\0", &[self.landmarks(), self.points()])
    }
}

/// As the safetensors writer spells it: keys in this order, no blanks, padded to a multiple of eight.
fn preamble(domain: &[u8], tensors: &[&Tensor]) -> Vec<u8> {
    let mut start = 0;
    let mut entries = Vec::new();
    for tensor in tensors {
        let Tensor { name, dtype, shape, len, .. } = tensor;
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        let (shape, end) = (shape.join(","), start + len);
        entries.push(format!(r#""{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#));
        start = end;
    }
    let mut header = format!("{{{}}}", entries.join(","));
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    [domain, &(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

impl Tensor {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Self, DomainError> {
        let mut entry = fields.object(name)?;
        let code = entry.string("dtype")?;
        let (rank, dtype, width) = if name == LANDMARKS {
            (0, "I64", 8)
        } else {
            let found = FLOATS.iter().enumerate().find(|(_, (dtype, _))| *dtype == code);
            let (index, (dtype, width)) =
                found.ok_or_else(|| entry.refuse("dtype", "must be F64, F32, BF16 or F16"))?;
            (index + 1, *dtype, *width)
        };
        if code != dtype {
            return Err(entry.refuse("dtype", "must be I64"));
        }
        let shape = counts(&mut entry, "shape")?;
        if shape.len() > MAX_RANK {
            return Err(entry.refuse("shape", &format!("has more than {MAX_RANK} dimensions")));
        }
        let offsets = <[u64; 2]>::try_from(counts(&mut entry, "data_offsets")?)
            .map_err(|_| entry.refuse("data_offsets", "must be two numbers"))?;
        entry.done()?;
        // Zero dimensions do not hide an overflow of the others.
        let size = shape.iter().filter(|dim| **dim > 0).try_fold(width, |size, dim| size.checked_mul(*dim));
        let len = match size {
            Some(_) if shape.contains(&0) => 0,
            Some(size) => size,
            None => return Err(entry_overflow(name)),
        };
        Ok(Self { name, dtype, rank, shape, len, offsets })
    }
}

fn entry_overflow(name: &'static str) -> DomainError {
    DomainError::new(CODE, "the dimensions of a tensor of the probe overflow 64 bits").field("tensor", name)
}

fn counts(entry: &mut Fields, name: &str) -> Result<Vec<u64>, DomainError> {
    entry
        .list(name)?
        .into_iter()
        .map(|item| match item {
            Value::Integer(digits) => digits.parse().ok(),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| entry.refuse(name, "must hold integers from 0 to 2^64 - 1"))
}
