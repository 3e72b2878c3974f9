//! Artifacts, their files and groups, and the blobs that hold the files.

use super::backend::{MetaStore, read, snapshot, write};
use super::error::StoreError;
use super::sql;
use crate::core::digest::{BlobDigest, ContentHash, GroupHash};

/// An artifact as it lies in the database, without its header's text.
#[derive(Clone, Debug)]
pub struct ArtifactRow {
    /// SHA-256 of `header.json`.
    pub header_digest: BlobDigest,
    /// Bytes of `header.json`.
    pub header_len: u64,
    /// The schema version in the file.
    pub schema_version: u32,
    /// Round whose input it is.
    pub round_index: u64,
    /// H1 of the parent.
    pub parent_hash: Option<ContentHash>,
    /// The configuration's hash.
    pub config_hash: String,
    /// Tensors in the manifest.
    pub tensor_count: u64,
    /// Bytes of all files.
    pub size: u64,
    /// Microseconds since 1970.
    pub received_at: i64,
    /// Microseconds since 1970.
    pub verified_at: i64,
    /// How it was last verified.
    pub verified_how: String,
    /// The files in order.
    pub files: Vec<FileRow>,
    /// The groups in order.
    pub groups: Vec<GroupRow>,
}

/// A file of an artifact and the blob that holds it.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// Its name.
    pub name: String,
    /// H4.
    pub digest: BlobDigest,
    /// The blob.
    pub blob: BlobRow,
}

/// A blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRow {
    /// Where it lies.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// What the file looked like when its bytes were last known to be right.
    pub stamp: String,
    /// True when its bytes were found to be wrong.
    pub damaged: bool,
}

/// A group of an artifact.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// `encoder` or `predictor`.
    pub name: String,
    /// H2.
    pub digest: GroupHash,
    /// Bytes of its safetensors form.
    pub size: u64,
    /// Tensors in it.
    pub tensor_count: u64,
}

/// A link of the parent chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// H1.
    pub content_hash: ContentHash,
    /// Round in the header.
    pub round_index: u64,
    /// H1 of the parent.
    pub parent_hash: Option<ContentHash>,
}

pub(super) fn corrupt(table: &'static str, column: &'static str) -> StoreError {
    StoreError::Corrupt { table, column }
}

pub(super) fn count(value: i64, table: &'static str, column: &'static str) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(|_| corrupt(table, column))
}

fn link(hash: &str, round: i64, parent: Option<&str>) -> Result<Link, StoreError> {
    let digest = |text: &str| text.parse().map_err(|_| corrupt("artifacts", "content_hash"));
    Ok(Link {
        content_hash: digest(hash)?,
        round_index: count(round, "artifacts", "round_index")?,
        parent_hash: parent.map(digest).transpose()?,
    })
}

/// The columns of [`sql::ARTIFACT`].
type ArtifactColumns = (String, i64, i64, i64, Option<String>, String, i64, i64, i64, i64, String);

/// The columns of [`sql::ARTIFACT_FILES`].
type FileColumns = (String, String, String, i64, String, Option<i64>);

/// The columns of [`sql::ARTIFACT_GROUPS`].
type GroupColumns = (String, String, i64, i64);

/// For counts and sizes, whose limits lie far below 2^63.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl MetaStore {
    /// Reads one artifact.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn artifact(&self, hash: ContentHash) -> Result<Option<ArtifactRow>, StoreError> {
        let hash = hash.to_string();
        let (row, files, groups): (ArtifactColumns, Vec<FileColumns>, Vec<GroupColumns>) = snapshot!(self, |tx| {
            let Some(row) = sqlx::query_as(sql::ARTIFACT).bind(&hash).fetch_optional(&mut *tx).await? else {
                return Ok(None);
            };
            let files = sqlx::query_as(sql::ARTIFACT_FILES).bind(&hash).fetch_all(&mut *tx).await?;
            (row, files, sqlx::query_as(sql::ARTIFACT_GROUPS).bind(&hash).fetch_all(&mut *tx).await?)
        });
        let (header_digest, header_len, schema, round, parent, config_hash, tensors, size, received, verified, how) =
            row;
        Ok(Some(ArtifactRow {
            header_digest: header_digest.parse().map_err(|_| corrupt("artifacts", "header_digest"))?,
            header_len: count(header_len, "artifacts", "header")?,
            schema_version: u32::try_from(schema).map_err(|_| corrupt("artifacts", "schema_version"))?,
            round_index: count(round, "artifacts", "round_index")?,
            parent_hash: parent
                .map(|hash| hash.parse())
                .transpose()
                .map_err(|_| corrupt("artifacts", "parent_hash"))?,
            config_hash,
            tensor_count: count(tensors, "artifacts", "tensor_count")?,
            size: count(size, "artifacts", "size")?,
            received_at: received,
            verified_at: verified,
            verified_how: how,
            files: files
                .into_iter()
                .map(|(name, digest, key, size, stamp, damaged_at)| {
                    Ok(FileRow {
                        name,
                        digest: digest.parse().map_err(|_| corrupt("artifact_files", "digest"))?,
                        blob: BlobRow {
                            key,
                            size: count(size, "blobs", "size")?,
                            stamp,
                            damaged: damaged_at.is_some(),
                        },
                    })
                })
                .collect::<Result<_, StoreError>>()?,
            groups: groups
                .into_iter()
                .map(|(name, digest, size, tensors)| {
                    Ok(GroupRow {
                        name,
                        digest: digest.parse().map_err(|_| corrupt("artifact_groups", "group_hash"))?,
                        size: count(size, "artifact_groups", "size")?,
                        tensor_count: count(tensors, "artifact_groups", "tensor_count")?,
                    })
                })
                .collect::<Result<_, StoreError>>()?,
        }))
    }

    /// Reads the header's bytes as they were received.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn header(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(read!(self, |connection| sqlx::query_scalar(sql::ARTIFACT_HEADER)
            .bind(hash.to_string())
            .fetch_optional(&mut *connection)
            .await?))
    }

    /// SHA-256 of the header that is stored for an artifact.
    ///
    /// # Errors
    /// When the database fails or the row is unreadable.
    pub async fn header_digest(&self, hash: ContentHash) -> Result<Option<BlobDigest>, StoreError> {
        let row: Option<String> = read!(self, |connection| sqlx::query_scalar(sql::ARTIFACT_HEADER_DIGEST)
            .bind(hash.to_string())
            .fetch_optional(&mut *connection)
            .await?);
        row.map(|digest| digest.parse().map_err(|_| corrupt("artifacts", "header_digest"))).transpose()
    }

    /// Artifacts that hold a group with this hash, and the group's name in each; a few of them.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn group_holders(&self, group: GroupHash) -> Result<Vec<(ContentHash, String)>, StoreError> {
        let rows: Vec<(String, String)> = read!(self, |connection| sqlx::query_as(sql::GROUP_HOLDERS)
            .bind(group.to_string())
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter()
            .map(|(hash, name)| Ok((hash.parse().map_err(|_| corrupt("artifact_groups", "content_hash"))?, name)))
            .collect()
    }

    /// One link of the chain.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn link(&self, hash: ContentHash) -> Result<Option<Link>, StoreError> {
        let row: Option<(i64, Option<String>)> = read!(self, |connection| sqlx::query_as(sql::LINK)
            .bind(hash.to_string())
            .fetch_optional(&mut *connection)
            .await?);
        row.map(|(round, parent)| link(&hash.to_string(), round, parent.as_deref())).transpose()
    }

    /// Artifacts whose parent this one is, at most `limit`.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn children(&self, hash: ContentHash, limit: u32) -> Result<Vec<Link>, StoreError> {
        let rows: Vec<(String, i64, Option<String>)> = read!(self, |connection| sqlx::query_as(sql::CHILDREN)
            .bind(hash.to_string())
            .bind(i64::from(limit))
            .fetch_all(&mut *connection)
            .await?);
        rows.iter().map(|(hash, round, parent)| link(hash, *round, parent.as_deref())).collect()
    }

    /// Reads a blob's row.
    ///
    /// # Errors
    /// When the database fails or the row is unreadable.
    pub async fn blob(&self, digest: BlobDigest) -> Result<Option<BlobRow>, StoreError> {
        let row: Option<(String, i64, String, Option<i64>)> = read!(self, |connection| sqlx::query_as(sql::BLOB)
            .bind(digest.to_string())
            .fetch_optional(&mut *connection)
            .await?);
        row.map(|(key, size, stamp, damaged)| {
            Ok(BlobRow { key, size: count(size, "blobs", "size")?, stamp, damaged: damaged.is_some() })
        })
        .transpose()
    }

    /// Notes that a blob's bytes are right and what its file looks like.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn set_stamp(&self, digest: BlobDigest, key: &str, stamp: &str) -> Result<(), StoreError> {
        write!(self, |tx| {
            sqlx::query(sql::SET_STAMP).bind(digest.to_string()).bind(key).bind(stamp).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(())
        })
    }

    /// Notes that a blob's bytes are wrong; it is served to nobody until it is pushed again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn set_damaged(&self, digest: BlobDigest, key: &str, at: i64) -> Result<(), StoreError> {
        write!(self, |tx| {
            sqlx::query(sql::SET_DAMAGED).bind(digest.to_string()).bind(key).bind(at).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(())
        })
    }

    /// Notes when and how an artifact was last verified.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn set_verified(&self, hash: ContentHash, at: i64, how: &str) -> Result<(), StoreError> {
        write!(self, |tx| {
            sqlx::query(sql::SET_VERIFIED).bind(hash.to_string()).bind(at).bind(how).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(())
        })
    }

    /// True when a row refers to the key.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn key_in_use(&self, key: &str) -> Result<bool, StoreError> {
        Ok(read!(self, |connection| sqlx::query_scalar::<_, i64>(sql::KEY_IN_USE)
            .bind(key)
            .fetch_optional(&mut *connection)
            .await?)
        .is_some())
    }
}
