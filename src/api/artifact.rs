//! What an artifact looks like from outside.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A stored, verified artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// H1, the canonical hash.
    pub content_hash: String,
    /// Always `checkpoint` today.
    pub kind: String,
    /// What the header says.
    pub header: HeaderView,
    /// The stored files in order: weights, then the index if there is one.
    pub files: Vec<File>,
    /// The parameter groups.
    pub groups: Vec<Group>,
    /// H1 of the parent, when the header names one.
    pub parent_hash: Option<String>,
    /// Bytes of all stored files.
    pub size: u64,
    /// When this registry took it in (RFC 3339, UTC).
    pub received_at: String,
    /// When and how its bytes were last compared with its hashes.
    pub verified: Verification,
    /// Runs and rounds that committed it.
    pub commits: Vec<CommitRef>,
    /// Things worth knowing that were no reason to refuse; only in the answer to an upload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A round of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitRef {
    /// The run's name.
    pub run: String,
    /// The round that this artifact is the input of.
    pub round_index: u64,
}

/// The fields of a header; the manifest is in `header.json` itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeaderView {
    /// The schema version in the file.
    pub schema_version: u32,
    /// The pinned contract tag.
    pub wmcp_version: String,
    /// Round whose input this checkpoint is.
    pub round_index: u64,
    /// Hash of the run's configuration.
    pub config_hash: String,
    /// Parameter groups.
    pub param_groups: Vec<String>,
    /// When it was written, by the writer's clock.
    pub created_at: String,
    /// The encoder's shape, when the writer gave it.
    #[schema(value_type = Option<Object>)]
    pub model_arch: Option<Value>,
    /// Tensors in the manifest.
    pub tensor_count: u64,
    /// SHA-256 of `header.json` as it was received.
    pub sha256: String,
    /// Bytes of `header.json`.
    pub size: u64,
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// Its name in the directory.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// H4, SHA-256 of its bytes.
    pub blob_hash: String,
    /// Where it is served, relative to this server.
    pub url: String,
}

/// A parameter group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// `encoder` or `predictor`.
    pub name: String,
    /// H2.
    pub group_hash: String,
    /// Bytes of its safetensors form.
    pub size: u64,
    /// Tensors in it.
    pub tensor_count: u64,
    /// The reference that Lensemble's messages carry.
    pub param_ref: ParamRef,
    /// Where it is served, relative to this server.
    pub url: String,
}

/// Lensemble's reference to a parameter group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParamRef {
    /// H2: the hash decides.
    pub content_hash: String,
    /// A hint where to fetch it.
    pub locator: String,
}

/// When and how stored bytes were last compared with their hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// RFC 3339, UTC.
    pub at: String,
    /// `upload`: while it was received; `verify`: recomputed from the stored bytes.
    pub how: String,
}

/// What `POST …/verify` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// The hash that the caller expects, when it is not simply the artifact's.
    #[serde(default)]
    pub expected_hash: Option<String>,
}

/// What `POST …/verify` answers when everything agrees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyAnswer {
    /// True; a difference is an error.
    pub ok: bool,
    /// H1, recomputed.
    pub content_hash: String,
    /// The files, with H4 recomputed.
    pub files: Vec<File>,
    /// The groups, with H2 recomputed.
    pub groups: Vec<Group>,
    /// When.
    pub verified: Verification,
}

/// The chain of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lineage {
    /// The artifact itself, its parent, and so on towards round 0.
    pub ancestors: Vec<LineageEntry>,
    /// True when the last ancestor has no parent; false when the chain leaves this registry or this page.
    pub complete: bool,
    /// The parent that is not stored here, where the chain ends early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_parent: Option<String>,
    /// Artifacts whose parent this one is.
    pub children: Vec<LineageEntry>,
}

/// One link of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineageEntry {
    /// H1.
    pub content_hash: String,
    /// H1 of the parent.
    pub parent_hash: Option<String>,
    /// Round in the header.
    pub round_index: u64,
}
