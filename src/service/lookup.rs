//! What is known of an artifact, mostly from memory: artifacts never change.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::error::ServiceError;
use super::registry::{Registry, rfc3339};
use crate::api::artifact::{
    Artifact, CommitRef, File, Group, HeaderView, Lineage, LineageEntry, ParamRef, Verification,
};
use crate::api::route;
use crate::core::checkpoint::{Header, NEWEST_SCHEMA};
use crate::core::digest::ContentHash;
use crate::core::limits::Limits;
use crate::store::meta::StoreError;
use crate::store::meta::artifact::{ArtifactRow, Link};

/// Artifacts kept in memory. One takes a few kilobytes.
const REMEMBERED: usize = 1000;

/// Ancestors in one answer.
const ANCESTORS: usize = 1000;

/// Children in one answer.
const CHILDREN: u32 = 100;

/// An artifact's rows and its description for the outside.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) row: ArtifactRow,
    pub(super) artifact: Arc<Artifact>,
}

/// Recently used artifacts.
#[derive(Debug)]
pub(super) struct Memory(Cache<ContentHash, Arc<Known>>);

impl Memory {
    pub(super) fn new() -> Self {
        Self(Cache::new(REMEMBERED))
    }

    /// Makes the next look go to the database.
    pub(super) fn forget(&self, hash: ContentHash) {
        self.0.remove(&hash);
    }
}

impl Registry {
    /// An artifact's rows and description.
    pub(super) async fn known(&self, hash: ContentHash) -> Result<Arc<Known>, ServiceError> {
        if let Some(known) = self.memory.0.get(&hash) {
            return Ok(known);
        }
        let found = (self.meta.artifact(hash).await?, self.meta.header(hash).await?);
        let (Some(row), Some(header)) = found else {
            return Err(ServiceError::not_found("an artifact with this content hash"));
        };
        let header = tokio::task::spawn_blocking(move || Header::parse(&header, &Limits::STORED)).await?;
        let header = header.map_err(|_| StoreError::Corrupt { table: "artifacts", column: "header" })?;
        self.remember(hash, row, &header).await
    }

    async fn remember(&self, hash: ContentHash, row: ArtifactRow, header: &Header) -> Result<Arc<Known>, ServiceError> {
        let mut artifact = describe(hash, &row, header);
        let commits = self.meta.commits_of(hash).await?;
        artifact.commits = commits.into_iter().map(|(run, round_index)| CommitRef { run, round_index }).collect();
        let known = Arc::new(Known { row, artifact: Arc::new(artifact) });
        self.memory.0.insert(hash, Arc::clone(&known));
        Ok(known)
    }

    /// Describes an artifact that is stored with exactly this header.
    pub(super) async fn describe_stored(&self, header: &Header) -> Result<Arc<Artifact>, ServiceError> {
        let hash = header.content_hash;
        let row = self.meta.artifact(hash).await?;
        let row = row.ok_or_else(|| ServiceError::not_found("an artifact with this content hash"))?;
        Ok(Arc::clone(&self.remember(hash, row, header).await?.artifact))
    }

    /// Describes an artifact.
    ///
    /// # Errors
    /// When it is not here.
    pub async fn artifact(&self, hash: ContentHash) -> Result<Arc<Artifact>, ServiceError> {
        Ok(Arc::clone(&self.known(hash).await?.artifact))
    }

    /// Describes an artifact, after making sure that its files are there and as they were.
    ///
    /// # Errors
    /// When it is not here, or a file is damaged.
    pub async fn sound_artifact(&self, hash: ContentHash) -> Result<Arc<Artifact>, ServiceError> {
        let known = self.known(hash).await?;
        for file in &known.row.files {
            self.open_blob(hash, file).await?;
        }
        Ok(Arc::clone(&known.artifact))
    }

    /// The chain of an artifact towards round 0, and its children.
    ///
    /// # Errors
    /// When it is not here.
    pub async fn lineage(&self, hash: ContentHash) -> Result<Lineage, ServiceError> {
        let mut ancestors = Vec::new();
        let mut next = Some(hash);
        let mut missing_parent = None;
        while let Some(hash) = next
            && ancestors.len() < ANCESTORS
        {
            match self.meta.link(hash).await? {
                Some(link) => {
                    ancestors.push(entry(&link));
                    next = link.parent_hash;
                }
                None if ancestors.is_empty() => {
                    return Err(ServiceError::not_found("an artifact with this content hash"));
                }
                None => {
                    missing_parent = Some(hash.to_string());
                    break;
                }
            }
        }
        let children = self.meta.children(hash, CHILDREN).await?;
        Ok(Lineage {
            complete: next.is_none(),
            ancestors,
            missing_parent,
            children: children.iter().map(entry).collect(),
        })
    }
}

/// A row that cannot be read as what it must be.
pub(super) fn unreadable(table: &'static str, column: &'static str) -> ServiceError {
    StoreError::Corrupt { table, column }.into()
}

fn entry(link: &Link) -> LineageEntry {
    LineageEntry {
        content_hash: link.content_hash.to_string(),
        parent_hash: link.parent_hash.map(|hash| hash.to_string()),
        round_index: link.round_index,
    }
}

fn describe(hash: ContentHash, row: &ArtifactRow, header: &Header) -> Artifact {
    debug_assert!(header.schema_version <= NEWEST_SCHEMA);
    Artifact {
        content_hash: hash.to_string(),
        kind: "checkpoint".to_owned(),
        header: HeaderView {
            schema_version: header.schema_version,
            wmcp_version: header.wmcp_version.clone(),
            round_index: header.round_index,
            config_hash: header.config_hash.to_string(),
            param_groups: header.param_groups.clone(),
            created_at: header.created_at.clone(),
            model_arch: header.model_arch.as_ref().and_then(|arch| serde_json::to_value(arch).ok()),
            tensor_count: row.tensor_count,
            sha256: row.header_digest.to_string(),
            size: row.header_len,
        },
        files: files(hash, row),
        groups: groups(hash, row),
        parent_hash: row.parent_hash.map(|parent| parent.to_string()),
        size: row.size,
        received_at: rfc3339(row.received_at),
        verified: Verification { at: rfc3339(row.verified_at), how: row.verified_how.clone() },
        commits: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(super) fn files(hash: ContentHash, row: &ArtifactRow) -> Vec<File> {
    let file = |file: &crate::store::meta::artifact::FileRow| File {
        name: file.name.clone(),
        size: file.blob.size,
        blob_hash: file.digest.to_string(),
        url: route::file(hash, &file.name),
    };
    row.files.iter().map(file).collect()
}

pub(super) fn groups(hash: ContentHash, row: &ArtifactRow) -> Vec<Group> {
    let group = |group: &crate::store::meta::artifact::GroupRow| Group {
        name: group.name.clone(),
        group_hash: group.digest.to_string(),
        size: group.size,
        tensor_count: group.tensor_count,
        param_ref: ParamRef {
            content_hash: group.digest.to_string(),
            locator: format!("artifact://sha256/{}", group.digest),
        },
        url: route::group(hash, &group.name),
    };
    row.groups.iter().map(group).collect()
}
