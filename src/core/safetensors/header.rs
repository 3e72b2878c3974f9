//! The JSON text at the front of a safetensors file, under the registry's strict profile.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::dtype::Dtype;
use crate::core::error::DomainError;
use crate::core::json::{Object, explain};
use crate::core::limits::Limits;

/// One tensor of a container: what it is and where its bytes lie in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The name, as bytes of UTF-8; never normalised.
    pub name: Box<str>,
    /// The element type.
    pub dtype: Dtype,
    /// The dimensions; empty for a scalar.
    pub shape: Box<[u64]>,
    /// Offset of the first byte, counted from the start of the file.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
}

/// A container's header after every check: tensors in the order of their bytes, without gap or overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Tensors by position; empty ones by name among themselves.
    pub tensors: Vec<Tensor>,
    /// Size of the whole file in bytes.
    pub file_len: u64,
    /// `content_hash` in the metadata, which must be the checkpoint's.
    pub metadata_hash: Option<Box<str>>,
    /// `schema_version` in the metadata, which must be the checkpoint's.
    pub metadata_version: Option<Box<str>>,
    /// The file has metadata without a `format`; some readers warn about that. Lensemble writes no metadata at all.
    pub without_format: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The dtype is kept as text only where it will be refused, so that a header of 100,000 tensors stays small.
struct Entry {
    name: Box<str>,
    dtype: Result<Dtype, Box<str>>,
    shape: Box<[u64]>,
    offsets: [u64; 2],
}

#[derive(Default)]
struct Metadata {
    seen: bool,
    format: bool,
    content_hash: Option<Box<str>>,
    schema_version: Option<Box<str>>,
}

struct Raw {
    entries: Vec<Entry>,
    metadata: Metadata,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw { entries: Vec::new(), metadata: Metadata::default() };
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    if name == "__metadata__" {
                        if raw.metadata.seen {
                            return Err(de::Error::custom("__metadata__ stands there twice"));
                        }
                        raw.metadata = map.next_value::<Option<Metadata>>()?.unwrap_or_default();
                        raw.metadata.seen = true;
                        continue;
                    }
                    let Object(entry) = map.next_value::<Object<RawEntry<'de>>>()?;
                    raw.entries.push(Entry {
                        name: name.into(),
                        dtype: Dtype::from_code(&entry.dtype).ok_or_else(|| entry.dtype.into()),
                        shape: entry.shape.into(),
                        offsets: entry.data_offsets,
                    });
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(RawVisitor)
    }
}

/// Metadata is outside every hash, so it could carry anything; only three harmless keys are let in.
impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut metadata = Metadata::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let value = map.next_value::<Cow<'de, str>>()?;
                    let slot = match key.as_ref() {
                        "format" => {
                            let plain = value.len() <= 16 && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
                            if metadata.format || !plain {
                                return Err(de::Error::custom("the format in __metadata__ is not one short word"));
                            }
                            metadata.format = true;
                            continue;
                        }
                        "content_hash" => &mut metadata.content_hash,
                        "schema_version" => &mut metadata.schema_version,
                        _ => {
                            return Err(de::Error::custom(
                                "__metadata__ may hold only format, content_hash and schema_version",
                            ));
                        }
                    };
                    if slot.replace(value.into()).is_some() {
                        return Err(de::Error::custom("a key of __metadata__ stands there twice"));
                    }
                }
                Ok(metadata)
            }
        }
        deserializer.deserialize_map(MetadataVisitor)
    }
}

impl Container {
    /// Reads the JSON text `text` of a container whose first data byte lies at `8 + text.len()`.
    ///
    /// # Errors
    /// `checkpoint_integrity` for anything that is not the strict profile, `artifact_invalid` for an element type
    /// that a checkpoint may not hold.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, DomainError> {
        if text.first() != Some(&b'{') {
            return Err(DomainError::integrity("the safetensors header does not begin with '{'"));
        }
        let json = text.trim_ascii_end();
        if text[json.len()..].iter().any(|byte| *byte != b' ') {
            return Err(DomainError::integrity("the safetensors header is padded with something else than blanks"));
        }
        let raw: Raw = serde_json::from_slice(json).map_err(|error| {
            DomainError::integrity(format!("the safetensors header is not valid: {}", explain(&error)))
        })?;
        if raw.entries.len() > limits.tensors {
            return Err(too_many_tensors(raw.entries.len(), limits));
        }
        let data_start = 8 + text.len() as u64;
        let mut tensors =
            raw.entries.into_iter().map(|entry| entry.check(data_start, limits)).collect::<Result<Vec<_>, _>>()?;
        tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(DomainError::integrity("a tensor stands in the safetensors header twice")
                .field("tensor", &*pair[0].name));
        }
        // Stable, so that empty tensors at one offset stay in name order.
        tensors.sort_by_key(|tensor| (tensor.start, tensor.len));
        let mut end = data_start;
        for tensor in &tensors {
            if tensor.start != end {
                let (what, by) = if tensor.start > end {
                    ("leaves a gap before it", tensor.start - end)
                } else {
                    ("overlaps the one before it", end - tensor.start)
                };
                return Err(DomainError::integrity(format!("a tensor {what} of {by} bytes"))
                    .field("tensor", &*tensor.name)
                    .field("offset", tensor.start)
                    .remedy("Save each tensor once and contiguously; store tied weights once."));
            }
            end = tensor.start.checked_add(tensor.len).ok_or_else(|| DomainError::integrity("offsets overflow"))?;
        }
        Ok(Self {
            tensors,
            file_len: end,
            metadata_hash: raw.metadata.content_hash,
            metadata_version: raw.metadata.schema_version,
            without_format: raw.metadata.seen && !raw.metadata.format,
        })
    }
}

impl Entry {
    fn check(self, data_start: u64, limits: &Limits) -> Result<Tensor, DomainError> {
        let Self { name, dtype, shape, offsets: [begin, end] } = self;
        let refuse = |message: &str| DomainError::integrity(message.to_owned()).field("tensor", &*name);
        if name.len() > limits.name_bytes {
            return Err(DomainError::integrity("a tensor's name is too long")
                .field("limit", limits.name_bytes)
                .field("bytes", name.len()));
        }
        let dtype = dtype.map_err(|code| match Dtype::known_elsewhere(&code) {
            Some(code) => DomainError::invalid(format!("element type {code} is not allowed in a checkpoint"))
                .field("tensor", &*name)
                .field("reason", "dtype_not_allowed")
                .field("allowed", vec!["F32", "BF16", "F16"]),
            None => refuse("an element type is not one that safetensors knows")
                .field("reason", "dtype_unknown")
                .field("allowed", vec!["F32", "BF16", "F16"]),
        })?;
        if shape.len() > limits.rank {
            return Err(refuse("a tensor has too many dimensions").field("limit", limits.rank));
        }
        let size = dtype.size_of(&shape).ok_or_else(|| refuse("the dimensions of a tensor overflow 64 bits"))?;
        let len = end.checked_sub(begin).ok_or_else(|| refuse("a tensor ends before it begins"))?;
        if len != size {
            return Err(refuse("the offsets of a tensor do not fit its shape")
                .field("expected_bytes", size)
                .field("got_bytes", len));
        }
        let start = begin
            .checked_add(data_start)
            .filter(|start| start.checked_add(len).is_some())
            .ok_or_else(|| refuse("the offsets of a tensor overflow 64 bits"))?;
        Ok(Tensor { name, dtype, shape, start, len })
    }
}

/// The refusal of a header or manifest with more tensors than the limit.
pub(crate) fn too_many_tensors(count: usize, limits: &Limits) -> DomainError {
    DomainError::invalid("there are more tensors than one checkpoint may hold")
        .field("limit", limits.tensors)
        .field("tensors", count)
}
