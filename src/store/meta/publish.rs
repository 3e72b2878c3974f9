//! The one transaction that makes an artifact visible.

use super::artifact::signed;
use super::backend::{Dialect, MetaStore, both, write};
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
        /// True when the header that is kept is the one that was sent.
        same_header: bool,
    },
}

/// Where the text of a header is.
#[derive(Clone, Copy, Debug)]
pub enum HeaderText<'a> {
    /// At hand.
    Here(&'a [u8]),
    /// In the upload session of this name, which ends with the artifact.
    Upload(&'a str),
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
        header: (HeaderText<'_>, BlobDigest),
        blobs: &[ReadyBlob],
        at: i64,
    ) -> Result<Stored, StoreError> {
        let hash = verified.content_hash().to_string();
        write!(self, |tx| {
            let existing: Option<String> =
                sqlx::query_scalar(sql::ARTIFACT_HEADER_DIGEST).bind(&hash).fetch_optional(&mut *tx).await?;
            let mut unused = Vec::new();
            for (file, ready) in verified.files().iter().zip(blobs) {
                unused.extend(tx.adopt_blob(existing.is_none(), file.digest, file.len, ready).await?);
            }
            if existing.is_none() {
                tx.insert_artifact(verified, header, at).await?;
            }
            if let HeaderText::Upload(id) = header.0 {
                sqlx::query(sql::CLOSE_UPLOAD).bind(id).bind("finished").bind(None::<String>).execute(&mut *tx).await?;
                sqlx::query(sql::CLEAR_UPLOAD_FILES).bind(id).execute(&mut *tx).await?;
            }
            tx.commit().await?;
            Ok(match existing {
                None => Stored::Created { unused },
                Some(digest) => Stored::Existed { unused, same_header: digest == header.1.to_string() },
            })
        })
    }
}

both! {
    trait Publishing {
        /// Points the digest at the ready file, unless a good one is there. The key that is needed no more, if any.
        async fn adopt_blob(
            &mut self,
            wanted: bool,
            digest: BlobDigest,
            len: u64,
            ready: &ReadyBlob,
        ) -> Result<Option<String>, StoreError> {
            let digest = digest.to_string();
            let row: Option<(String, i64, String, Option<i64>)> =
                sqlx::query_as(self.pick(sql::BLOB_TO_ADOPT)).bind(&digest).fetch_optional(&mut *self).await?;
            match row {
                // The artifact is stored in another layout, so nothing would refer to this file.
                None if !wanted => Ok(Some(ready.key.clone())),
                None => {
                    sqlx::query(sql::INSERT_BLOB)
                        .bind(&digest)
                        .bind(&ready.key)
                        .bind(signed(len))
                        .bind(&ready.stamp)
                        .execute(&mut *self)
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
                        .execute(&mut *self)
                        .await?;
                    Ok(Some(key))
                }
                Some(_) => Ok(Some(ready.key.clone())),
            }
        }

        /// Writes the rows of an artifact whose blobs are there.
        async fn insert_artifact(
            &mut self,
            verified: &Verified,
            told: (HeaderText<'_>, BlobDigest),
            at: i64,
        ) -> Result<(), StoreError> {
            let (text, digest) = told;
            let header = verified.header();
            let hash = verified.content_hash().to_string();
            let size = verified.files().iter().map(|file| file.len).sum();
            let insert = match text {
                HeaderText::Here(text) => sqlx::query(sql::INSERT_ARTIFACT).bind(&hash).bind(text),
                HeaderText::Upload(id) => sqlx::query(sql::INSERT_ARTIFACT_OF_UPLOAD).bind(&hash).bind(id),
            };
            insert
                .bind(digest.to_string())
                .bind(i64::from(header.schema_version))
                .bind(signed(header.round_index))
                .bind(header.parent_hash.map(|parent| parent.to_string()))
                .bind(header.config_hash.to_string())
                .bind(signed(header.manifest.len() as u64))
                .bind(signed(size))
                .bind(at)
                .execute(&mut *self)
                .await?;
            for (position, file) in (0i64..).zip(verified.files()) {
                sqlx::query(sql::INSERT_ARTIFACT_FILE)
                    .bind(&hash)
                    .bind(position)
                    .bind(&file.name)
                    .bind(file.digest.to_string())
                    .execute(&mut *self)
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
                    .execute(&mut *self)
                    .await?;
            }
            Ok(())
        }
    }
}
