//! `header.json` of a checkpoint, schema versions 1 and 2 (Lensemble RFC-0010).
//!
//! The version gate comes first, then the fields, then the rules that join them. The header's own bytes are never
//! hashed into H1 and never written again; whoever stores a header stores it as it was received.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::digest::{ConfigHash, ContentHash};
use super::error::{DomainError, ErrorCode};
use super::json::{Object, explain, schema_version};
use super::limits::Limits;
use super::safetensors::dtype::Dtype;
use super::safetensors::header::{Container, too_many_tensors};
use super::shards;

/// The newest header schema that is read here.
pub const NEWEST_SCHEMA: u32 = 2;

/// The parameter groups that may be shared; anything else stays with its owner.
pub const SHARED_GROUPS: [&str; 2] = ["encoder", "predictor"];

/// One line of the manifest: a tensor as the header promises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The name; its part before the first dot is the group.
    pub name: Box<str>,
    /// The element type.
    pub dtype: Dtype,
    /// The dimensions; empty for a scalar.
    pub shape: Box<[u64]>,
    /// Size in bytes.
    pub len: u64,
}

impl ManifestEntry {
    /// The part of the name before the first dot.
    #[must_use]
    pub fn group(&self) -> &str {
        group_of(&self.name)
    }
}

/// Shape of the encoder that the weights belong to; metadata outside every hash, but it must be buildable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the field names are Lensemble's own")]
pub struct ModelArch {
    pub d: u64,
    pub depth: u64,
    pub num_heads: u64,
    pub num_tokens: u64,
    pub in_channels: u64,
    pub num_frames: u64,
    pub image_size: u64,
    pub patch_size: u64,
    pub tubelet: u64,
    pub mlp_ratio: f64,
    pub wmcp_version: String,
}

/// A checkpoint's header after every check that needs no weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The version in the file; H1 is computed with this one, never with a migrated one.
    pub schema_version: u32,
    /// H1 as the header claims it.
    pub content_hash: ContentHash,
    /// H1 of the checkpoint that this one descends from.
    pub parent_hash: Option<ContentHash>,
    /// The pinned contract tag.
    pub wmcp_version: String,
    /// Round whose input this checkpoint is.
    pub round_index: u64,
    /// Hash of the run's configuration; outside H1.
    pub config_hash: ConfigHash,
    /// Parameter groups in the order of the file.
    pub param_groups: Vec<String>,
    /// Every tensor, ascending by name bytes: the order of the canonical hash.
    pub manifest: Vec<ManifestEntry>,
    /// The weight files, in order.
    pub weight_files: Vec<String>,
    /// When it was written, by the writer's clock; never used for ordering.
    pub created_at: String,
    /// The encoder's shape, when the writer gave it.
    pub model_arch: Option<ModelArch>,
}

/// What links a header to its history, read without the manifest: for headers that were checked when they came in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Links {
    /// H1 as the header claims it.
    pub content_hash: ContentHash,
    /// H1 of the parent.
    pub parent_hash: Option<ContentHash>,
    /// The round.
    pub round_index: u64,
    /// The contract version.
    pub wmcp_version: String,
    /// Hash of the run's configuration.
    pub config_hash: ConfigHash,
    /// The version in the file.
    pub schema_version: u32,
}

impl Links {
    /// Reads the links of a header; `None` when it cannot be read.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().map(|Object(links)| links)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeader<'a> {
    #[expect(dead_code, reason = "the gate has read it; it must merely be allowed here")]
    schema_version: serde::de::IgnoredAny,
    content_hash: ContentHash,
    #[serde(deserialize_with = "present")]
    parent_hash: Option<ContentHash>,
    wmcp_version: String,
    round_index: u64,
    config_hash: ConfigHash,
    param_groups: Vec<String>,
    #[serde(borrow)]
    tensor_manifest: Vec<Object<RawEntry<'a>>>,
    weight_files: Vec<String>,
    created_at: String,
    /// Outer `None`: the key is absent.
    #[expect(clippy::option_option, reason = "absent and null are told apart: schema version 1 does not know the key")]
    #[serde(default, deserialize_with = "some")]
    model_arch: Option<Option<Object<ModelArch>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry<'a> {
    name: Box<str>,
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Box<[u64]>,
}

/// Null is a value here, absence is not; serde's derive would treat both alike.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The part of a tensor's name before the first dot: its parameter group.
#[must_use]
pub fn group_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Refuses a group that must not be shared. Names and counts may be private too, so only the boundary is told.
pub(crate) fn check_shared(group: &str) -> Result<(), DomainError> {
    if SHARED_GROUPS.contains(&group) {
        return Ok(());
    }
    Err(DomainError::new(ErrorCode::ResidencyViolation, "a tensor lies outside the groups that may be shared")
        .field("boundary", "encoder, predictor")
        .field("tensor_role", "outside the shared groups")
        .invariant("INV-ACTIONHEAD-LOCAL"))
}

impl Header {
    /// Reads and checks the bytes of a `header.json`.
    ///
    /// # Errors
    /// `registry_too_large`, `schema_version_mismatch`, `residency_violation` or `artifact_invalid`.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, DomainError> {
        if text.len() as u64 > limits.header_bytes {
            return Err(DomainError::new(ErrorCode::RegistryTooLarge, "header.json is larger than a header may be")
                .field("limit", limits.header_bytes)
                .field("bytes", text.len()));
        }
        let schema_version = schema_version(text, "header.json", NEWEST_SCHEMA)?;
        let Object(raw): Object<RawHeader<'_>> = serde_json::from_slice(text)
            .map_err(|error| DomainError::invalid(format!("header.json is not valid: {}", explain(&error))))?;
        raw.check(schema_version, limits)
    }

    /// Finds the manifest's entry of this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.manifest.binary_search_by(|entry| (*entry.name).cmp(name)).ok()
    }

    /// Compares a weight file's tensors with the manifest, one direction: each stored tensor is promised as it is.
    /// The positions of its tensors in the manifest, in file order.
    ///
    /// # Errors
    /// `residency_violation` or `artifact_invalid`; `checkpoint_integrity` for metadata that contradicts the header.
    pub fn locate(&self, container: &Container) -> Result<Vec<usize>, DomainError> {
        for tensor in &container.tensors {
            check_shared(group_of(&tensor.name))?;
        }
        let contradicts = |told: &Option<Box<str>>, own: &str| told.as_deref().is_some_and(|told| told != own);
        if contradicts(&container.metadata_hash, &self.content_hash.to_string())
            || contradicts(&container.metadata_version, &self.schema_version.to_string())
        {
            return Err(DomainError::integrity("the metadata of the weight file contradicts header.json"));
        }
        container
            .tensors
            .iter()
            .map(|tensor| {
                let differs = |what: &str| {
                    DomainError::invalid(format!("the manifest and the weight file disagree: {what}"))
                        .field("tensor", &*tensor.name)
                };
                let index = self.entry(&tensor.name).ok_or_else(|| differs("a stored tensor is not listed"))?;
                let entry = &self.manifest[index];
                if entry.dtype != tensor.dtype {
                    return Err(differs("another element type")
                        .field("expected", entry.dtype.token())
                        .field("got", tensor.dtype.token()));
                }
                if entry.shape != tensor.shape {
                    return Err(differs("another shape")
                        .field("expected", entry.shape.to_vec())
                        .field("got", tensor.shape.to_vec()));
                }
                Ok(index)
            })
            .collect()
    }
}

impl RawHeader<'_> {
    fn check(self, schema_version: u32, limits: &Limits) -> Result<Header, DomainError> {
        let invalid = |field: &'static str, message: &str| {
            DomainError::invalid(format!("header.json: {field} {message}")).field("field", field)
        };
        for group in &self.param_groups {
            check_shared(group)?;
        }
        if self.param_groups.is_empty() {
            return Err(invalid("param_groups", "is empty"));
        }
        if self.param_groups.len() == 2 && self.param_groups[0] == self.param_groups[1] || self.param_groups.len() > 2 {
            return Err(invalid("param_groups", "names a group twice"));
        }
        if self.wmcp_version.is_empty() || self.wmcp_version.len() > 256 {
            return Err(invalid("wmcp_version", "must have 1 to 256 bytes"));
        }
        if i64::try_from(self.round_index).is_err() {
            return Err(invalid("round_index", "is above 2^63 - 1"));
        }
        if !is_utc_time(&self.created_at) {
            return Err(invalid("created_at", "is not an RFC 3339 time in UTC with a Z"));
        }
        shards::check_names(&self.weight_files, limits)?;
        let manifest = check_manifest(self.tensor_manifest, &self.param_groups, limits)?;
        let model_arch = match self.model_arch {
            Some(_) if schema_version < 2 => {
                return Err(invalid("model_arch", "does not exist in schema version 1"));
            }
            Some(Some(Object(arch))) => Some(arch.check(&self.wmcp_version)?),
            Some(None) | None => None,
        };
        Ok(Header {
            schema_version,
            content_hash: self.content_hash,
            parent_hash: self.parent_hash,
            wmcp_version: self.wmcp_version,
            round_index: self.round_index,
            config_hash: self.config_hash,
            param_groups: self.param_groups,
            manifest,
            weight_files: self.weight_files,
            created_at: self.created_at,
            model_arch,
        })
    }
}

fn check_manifest(
    raw: Vec<Object<RawEntry<'_>>>,
    groups: &[String],
    limits: &Limits,
) -> Result<Vec<ManifestEntry>, DomainError> {
    if raw.is_empty() {
        return Err(DomainError::invalid("header.json: tensor_manifest is empty; there is nothing to share"));
    }
    if raw.len() > limits.tensors {
        return Err(too_many_tensors(raw.len(), limits));
    }
    for Object(entry) in &raw {
        check_shared(group_of(&entry.name))?;
        check_shared(&entry.group)?;
    }
    let mut total = 0u64;
    let mut manifest: Vec<ManifestEntry> = Vec::with_capacity(raw.len());
    for Object(RawEntry { name, group, dtype, shape }) in raw {
        // Without the name itself: it may be as long as the header.
        if name.len() > limits.name_bytes {
            return Err(DomainError::invalid("header.json: tensor_manifest: a name is too long")
                .field("limit", limits.name_bytes)
                .field("bytes", name.len()));
        }
        let invalid = |message: &str| {
            DomainError::invalid(format!("header.json: tensor_manifest: {message}")).field("tensor", &*name)
        };
        if *group != *group_of(&name) {
            return Err(invalid("the group is not the part of the name before the first dot"));
        }
        if !groups.iter().any(|known| **known == *group) {
            return Err(invalid("the group of a tensor is not in param_groups"));
        }
        if shape.len() > limits.rank {
            return Err(invalid("a tensor has too many dimensions").field("limit", limits.rank));
        }
        let dtype =
            Dtype::from_token(&dtype).ok_or_else(|| invalid("the dtype is none of float32, float16, bfloat16"))?;
        let len = dtype.size_of(&shape).ok_or_else(|| invalid("the dimensions overflow 64 bits"))?;
        total = total.saturating_add(len);
        match manifest.last() {
            Some(last) if last.name == name => return Err(invalid("a tensor is listed twice")),
            Some(last) if last.name > name => return Err(invalid("the entries are not in name order")),
            _ => manifest.push(ManifestEntry { name, dtype, shape, len }),
        }
    }
    if total > limits.artifact_bytes {
        return Err(DomainError::new(ErrorCode::RegistryTooLarge, "the tensors are larger than one artifact may be")
            .field("limit", limits.artifact_bytes)
            .field("bytes", total));
    }
    Ok(manifest)
}

impl ModelArch {
    fn check(self, wmcp_version: &str) -> Result<Self, DomainError> {
        let invalid = |message: &str| {
            DomainError::invalid(format!("header.json: model_arch {message}")).field("field", "model_arch")
        };
        let sizes = [
            self.d,
            self.depth,
            self.num_heads,
            self.num_tokens,
            self.in_channels,
            self.num_frames,
            self.image_size,
            self.patch_size,
            self.tubelet,
        ];
        if sizes.iter().any(|size| *size == 0 || *size > 1 << 31) {
            return Err(invalid("has a size that is not between 1 and 2^31"));
        }
        if !(self.mlp_ratio.is_finite() && self.mlp_ratio > 0.0) {
            return Err(invalid("has an mlp_ratio that is not a positive number"));
        }
        if self.wmcp_version != wmcp_version {
            return Err(invalid("has another wmcp_version than the header"));
        }
        if !self.d.is_multiple_of(self.num_heads) {
            return Err(invalid("cannot be built: num_heads does not divide d"));
        }
        if !self.num_frames.is_multiple_of(self.tubelet) || !self.image_size.is_multiple_of(self.patch_size) {
            return Err(invalid("cannot be built: tubelet or patch_size does not divide evenly"));
        }
        let side = u128::from(self.image_size / self.patch_size);
        if u128::from(self.num_tokens) != u128::from(self.num_frames / self.tubelet) * side * side {
            return Err(invalid("cannot be built: num_tokens is not (num_frames/tubelet) x (image_size/patch_size)^2"));
        }
        Ok(self)
    }
}

fn is_utc_time(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T') && text.ends_with('Z') && OffsetDateTime::parse(text, &Rfc3339).is_ok()
}
