//! Upload sessions and how far each of their files has come.

use super::artifact::{Link, corrupt, count, signed};
use super::backend::{Lock, MetaStore, read, snapshot, write};
use super::error::StoreError;
use super::sql;
use crate::core::digest::{BlobDigest, ContentHash};

/// A session as it lies in the database.
#[derive(Clone, Debug)]
pub struct UploadRow {
    /// H1 that the header claims.
    pub content_hash: ContentHash,
    /// SHA-256 of `header.json`.
    pub header_digest: BlobDigest,
    /// Weight files that the header lists.
    pub weight_files: usize,
    /// `open`, `finished`, `refused` or `aborted`.
    pub state: String,
    /// The refusal as a problem document.
    pub problem: Option<String>,
    /// Microseconds since 1970.
    pub created_at: i64,
    /// Microseconds since 1970.
    pub expires_at: i64,
    /// The files, by position.
    pub files: Vec<UploadFileRow>,
}

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadFileRow {
    /// Its position in the artifact.
    pub position: usize,
    /// Where its bytes lie, once there are any.
    pub key: Option<String>,
    /// Durable bytes.
    pub stored: u64,
    /// Length of the whole file, when known.
    pub length: Option<u64>,
    /// Saved state of the file's own digest.
    pub digest_state: Option<Vec<u8>>,
}

/// Progress of one file, to be saved together with the digests that span files.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Position of the file.
    pub position: usize,
    /// The writer that saves; an older one is refused.
    pub writer: i64,
    /// Where the bytes lie; `None` after a refusal, when they are gone.
    pub key: Option<String>,
    /// Durable bytes.
    pub stored: u64,
    /// Length of the whole file, when known.
    pub length: Option<u64>,
    /// State of the file's own digest after `stored` bytes.
    pub digest_state: Option<Vec<u8>>,
    /// States of the digests that span files.
    pub walks: Vec<u8>,
    /// Until when the session can be continued.
    pub expires_at: i64,
}

/// The columns of [`sql::UPLOAD`].
type UploadColumns = (String, String, i64, String, Option<String>, i64, i64);

/// The columns of [`sql::UPLOAD_FILES`].
type FileColumns = (i64, Option<String>, i64, Option<i64>, Option<Vec<u8>>, i64);

fn position(index: usize) -> i64 {
    signed(index as u64)
}

impl MetaStore {
    /// Opens a session with `files` files for the checkpoint that shall take a place in a chain.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_upload(
        &self,
        id: &str,
        place: &Link,
        header: &[u8],
        files: usize,
        (created_at, expires_at): (i64, i64),
    ) -> Result<(), StoreError> {
        write!(self, |tx| {
            sqlx::query(sql::INSERT_UPLOAD)
                .bind(id)
                .bind(place.content_hash.to_string())
                .bind(header)
                .bind(BlobDigest::of(header).to_string())
                .bind(position(files))
                .bind(created_at)
                .bind(expires_at)
                .bind(signed(place.round_index))
                .bind(place.parent_hash.map(|parent| parent.to_string()))
                .execute(&mut *tx)
                .await?;
            for index in 0..files {
                sqlx::query(sql::INSERT_UPLOAD_FILE).bind(id).bind(position(index)).execute(&mut *tx).await?;
            }
            tx.commit().await?;
            Ok(())
        })
    }

    /// Reads a session.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn upload(&self, id: &str) -> Result<Option<UploadRow>, StoreError> {
        let (row, files): (UploadColumns, Vec<FileColumns>) = snapshot!(self, |tx| {
            let Some(row) = sqlx::query_as(sql::UPLOAD).bind(id).fetch_optional(&mut *tx).await? else {
                return Ok(None);
            };
            (row, sqlx::query_as(sql::UPLOAD_FILES).bind(id).fetch_all(&mut *tx).await?)
        });
        let (content_hash, header_digest, weight_files, state, problem, created_at, expires_at) = row;
        let files = files
            .into_iter()
            .map(|(index, key, stored, length, digest_state, _)| {
                Ok(UploadFileRow {
                    position: usize::try_from(index).map_err(|_| corrupt("upload_files", "position"))?,
                    key,
                    stored: count(stored, "upload_files", "stored")?,
                    length: length.map(|length| count(length, "upload_files", "length")).transpose()?,
                    digest_state,
                })
            })
            .collect::<Result<_, StoreError>>()?;
        let content_hash = content_hash.parse().map_err(|_| corrupt("uploads", "content_hash"))?;
        let header_digest = header_digest.parse().map_err(|_| corrupt("uploads", "header_digest"))?;
        let weight_files = usize::try_from(weight_files).map_err(|_| corrupt("uploads", "weight_files"))?;
        Ok(Some(UploadRow { content_hash, header_digest, weight_files, state, problem, created_at, expires_at, files }))
    }

    /// The header of a session as it was received, and its saved digests that span files.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn upload_header(&self, id: &str) -> Result<Option<(Vec<u8>, Option<Vec<u8>>)>, StoreError> {
        Ok(read!(self, |connection| sqlx::query_as(sql::UPLOAD_HEADER)
            .bind(id)
            .fetch_optional(&mut *connection)
            .await?))
    }

    /// Becomes the newest writer of a file; every older one can save no more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim_upload_file(&self, id: &str, index: usize) -> Result<i64, StoreError> {
        write!(self, |tx| {
            let writer =
                sqlx::query_scalar(sql::CLAIM_UPLOAD_FILE).bind(id).bind(position(index)).fetch_one(&mut *tx).await?;
            tx.commit().await?;
            Ok(writer)
        })
    }

    /// Saves how far a file has come. False when a newer writer has taken over or the session is over; then nothing
    /// was saved.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn save_progress(&self, id: &str, progress: &Progress) -> Result<bool, StoreError> {
        write!(self, |tx| {
            // The session first, as whoever ends it does: on Postgres the later one waits there.
            let session = sqlx::query(sql::SAVE_UPLOAD_WALKS)
                .bind(id)
                .bind(&progress.walks)
                .bind(progress.expires_at)
                .execute(&mut *tx)
                .await?;
            let file = sqlx::query(sql::SAVE_UPLOAD_FILE)
                .bind(id)
                .bind(position(progress.position))
                .bind(progress.writer)
                .bind(&progress.key)
                .bind(signed(progress.stored))
                .bind(progress.length.map(signed))
                .bind(&progress.digest_state)
                .execute(&mut *tx)
                .await?;
            if file.rows_affected() != 1 || session.rows_affected() != 1 {
                return Ok(false);
            }
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Ends an open session as `refused` or `aborted`; the keys of what it had stored. Empty when it was over already.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn close_upload(&self, id: &str, state: &str, problem: Option<&str>) -> Result<Vec<String>, StoreError> {
        write!(self, |tx| {
            let closed = sqlx::query(sql::CLOSE_UPLOAD).bind(id).bind(state).bind(problem).execute(&mut *tx).await?;
            if closed.rows_affected() == 0 {
                return Ok(Vec::new());
            }
            let keys = sqlx::query_scalar(sql::UPLOAD_KEYS).bind(id).fetch_all(&mut *tx).await?;
            sqlx::query(sql::CLEAR_UPLOAD_FILES).bind(id).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(keys)
        })
    }

    /// Drops sessions that expired before `now`, a hundred at most; the keys of what they had stored.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire_uploads(&self, now: i64) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        let ids: Vec<String> = read!(self, |connection| sqlx::query_scalar(sql::EXPIRED_UPLOADS)
            .bind(now)
            .fetch_all(&mut *connection)
            .await?);
        let mut expired = Vec::with_capacity(ids.len());
        for id in ids {
            let keys = self.drop_upload(&id).await?;
            expired.push((id, keys));
        }
        Ok(expired)
    }

    /// Drops a session; the keys of what it had stored.
    async fn drop_upload(&self, id: &str) -> Result<Vec<String>, StoreError> {
        write!(self, |tx| {
            tx.lock(sql::LOCK_UPLOAD, id).await?;
            let keys = sqlx::query_scalar(sql::UPLOAD_KEYS).bind(id).fetch_all(&mut *tx).await?;
            sqlx::query(sql::DELETE_UPLOAD).bind(id).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(keys)
        })
    }
}
