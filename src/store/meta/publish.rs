//! The one transaction that makes an artifact visible.

use sqlx::{Sqlite, Transaction};

use super::artifact::signed;
use super::backend::MetaStore;
use super::error::StoreError;
use super::sql;
use crate::core::digest::BlobDigest;
use crate::core::intake::Verified;

/// A file that lies ready for an artifact.
#[derive(Clone, Debug)]
pub struct ReadyBlob {
    /// Where it lies.
    pub key: String,
    /// What it looks like.
    pub stamp: String,
    /// The blob row that was found damaged before and shall be replaced, by its key.
    pub replaces: Option<String>,
}

/// What became of a commit of an artifact.
#[derive(Debug)]
pub enum Stored {
    /// It is new.
    Created {
        /// Keys that nothing refers to any more.
        unused: Vec<String>,
    },
    /// It was there; damaged blobs were replaced.
    Existed {
        /// Keys that nothing refers to any more.
        unused: Vec<String>,
        /// The header that is kept.
        header: Vec<u8>,
    },
}

impl MetaStore {
    /// Makes a verified artifact visible, and ends the upload session it came from, in one transaction.
    ///
    /// `blobs` are the durable files, in the order of the artifact's. A file whose digest is stored already is not
    /// needed a second time, unless the stored one is damaged.
    ///
    /// # Errors
    /// When the database fails; then nothing has happened.
    pub async fn store_artifact(
        &self,
        verified: &Verified,
        header: &[u8],
        blobs: &[ReadyBlob],
        upload: Option<&str>,
        at: i64,
    ) -> Result<Stored, StoreError> {
        let hash = verified.content_hash().to_string();
        let mut tx = self.begin().await?;
        let existing: Option<Vec<u8>> =
            sqlx::query_scalar(sql::ARTIFACT_HEADER).bind(&hash).fetch_optional(&mut *tx).await?;
        let mut unused = Vec::new();
        for (file, ready) in verified.files().iter().zip(blobs) {
            unused.extend(adopt_blob(&mut tx, existing.is_none(), file.digest, file.len, ready).await?);
        }
        if existing.is_none() {
            insert_artifact(&mut tx, verified, header, at).await?;
        }
        if let Some(id) = upload {
            sqlx::query(sql::CLOSE_UPLOAD).bind(id).bind("finished").bind(None::<String>).execute(&mut *tx).await?;
            sqlx::query(sql::CLEAR_UPLOAD_FILES).bind(id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(match existing {
            None => Stored::Created { unused },
            Some(header) => Stored::Existed { unused, header },
        })
    }
}

/// Points the digest at the ready file, unless a good one is there. The key that is needed no more, if any.
async fn adopt_blob(
    tx: &mut Transaction<'static, Sqlite>,
    wanted: bool,
    digest: BlobDigest,
    len: u64,
    ready: &ReadyBlob,
) -> Result<Option<String>, StoreError> {
    let digest = digest.to_string();
    let row: Option<(String, i64, String, Option<i64>)> =
        sqlx::query_as(sql::BLOB).bind(&digest).fetch_optional(&mut **tx).await?;
    match row {
        // The artifact is stored in another layout, so nothing would refer to this file.
        None if !wanted => Ok(Some(ready.key.clone())),
        None => {
            sqlx::query(sql::INSERT_BLOB)
                .bind(&digest)
                .bind(&ready.key)
                .bind(signed(len))
                .bind(&ready.stamp)
                .execute(&mut **tx)
                .await?;
            Ok(None)
        }
        Some((key, _, _, _)) if key == ready.key => Ok(None),
        Some((key, _, _, damaged)) if damaged.is_some() || ready.replaces.as_ref() == Some(&key) => {
            sqlx::query(sql::REPLACE_BLOB)
                .bind(&digest)
                .bind(&ready.key)
                .bind(signed(len))
                .bind(&ready.stamp)
                .execute(&mut **tx)
                .await?;
            Ok(Some(key))
        }
        Some(_) => Ok(Some(ready.key.clone())),
    }
}

async fn insert_artifact(
    tx: &mut Transaction<'static, Sqlite>,
    verified: &Verified,
    header_text: &[u8],
    at: i64,
) -> Result<(), StoreError> {
    let header = verified.header();
    let hash = verified.content_hash().to_string();
    let size = verified.files().iter().map(|file| file.len).sum();
    sqlx::query(sql::INSERT_ARTIFACT)
        .bind(&hash)
        .bind(header_text)
        .bind(BlobDigest::of(header_text).to_string())
        .bind(i64::from(header.schema_version))
        .bind(signed(header.round_index))
        .bind(header.parent_hash.map(|parent| parent.to_string()))
        .bind(header.config_hash.to_string())
        .bind(signed(header.manifest.len() as u64))
        .bind(signed(size))
        .bind(at)
        .execute(&mut **tx)
        .await?;
    for (position, file) in (0i64..).zip(verified.files()) {
        sqlx::query(sql::INSERT_ARTIFACT_FILE)
            .bind(&hash)
            .bind(position)
            .bind(&file.name)
            .bind(file.digest.to_string())
            .execute(&mut **tx)
            .await?;
    }
    for (position, group) in (0i64..).zip(verified.groups()) {
        sqlx::query(sql::INSERT_ARTIFACT_GROUP)
            .bind(&hash)
            .bind(position)
            .bind(group.name)
            .bind(group.digest.to_string())
            .bind(signed(group.len))
            .bind(signed(group.tensors as u64))
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}
