//! Documents of a run, and the commitments among them.

use super::artifact::{corrupt, count, signed};
use super::backend::{Lock, MetaStore, both, read, write};
use super::commit::News;
use super::error::StoreError;
use super::publish::{Publishing, ReadyBlob};
use super::run::Runs;
use super::sql;
use crate::core::digest::{BlobDigest, DatasetRoot};
use crate::core::error::DomainError;
use crate::core::lineage::{Commitment, Step, check_commitment};
use crate::core::run::Name;

/// A document without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRow {
    /// Its kind.
    pub kind: String,
    /// SHA-256 of its bytes.
    pub digest: BlobDigest,
    /// Its place among the run's news.
    pub seq: u64,
    /// The version in the file.
    pub schema_version: u64,
    /// Bytes.
    pub size: u64,
    /// What a list shows of it, as JSON.
    pub summary: String,
    /// Microseconds since 1970.
    pub received_at: i64,
}

/// A document that is to be kept.
#[derive(Clone, Debug)]
pub struct NewDocument<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// SHA-256 of its bytes.
    pub digest: BlobDigest,
    /// The version in the file.
    pub schema_version: u32,
    /// Bytes.
    pub size: u64,
    /// The bytes, or where they lie in the store.
    pub bytes: DocumentBytes<'a>,
    /// What a list shows of it, as JSON.
    pub summary: &'a str,
    /// Microseconds since 1970.
    pub at: i64,
}

/// The bytes of a document that is to be kept.
#[derive(Clone, Copy, Debug)]
pub enum DocumentBytes<'a> {
    /// Small: they go into the row.
    Here(&'a [u8]),
    /// Large: they are durable in a file of the store.
    Stored(&'a ReadyBlob),
}

/// A commitment that holds from a round on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitmentRow {
    /// The participant.
    pub participant: String,
    /// The first round.
    pub from_round: u64,
    /// The root of its data set.
    pub merkle_root: DatasetRoot,
    /// SHA-256 of the document.
    pub digest: BlobDigest,
    /// Microseconds since 1970.
    pub received_at: i64,
}

/// What became of a document.
#[derive(Debug)]
pub enum Keeping {
    /// It is kept.
    Done {
        /// The document.
        row: DocumentRow,
        /// False when it was kept before.
        created: bool,
        /// The key of a stored file that nothing refers to any more.
        unused: Option<String>,
    },
    /// It may not be kept.
    Refused(DomainError),
    /// There is no such run.
    NoRun,
}

/// The columns of [`sql::DOCUMENT`].
type DocumentColumns = (String, String, i64, i64, i64, String, i64);

const DOCUMENTS: &str = "documents";

fn document(
    (kind, digest, seq, version, size, summary, received_at): DocumentColumns,
) -> Result<DocumentRow, StoreError> {
    Ok(DocumentRow {
        kind,
        digest: digest.parse().map_err(|_| corrupt(DOCUMENTS, "digest"))?,
        seq: count(seq, DOCUMENTS, "seq")?,
        schema_version: count(version, DOCUMENTS, "schema_version")?,
        size: count(size, DOCUMENTS, "size")?,
        summary,
        received_at,
    })
}

both! {
    trait Documents {
        /// A document without its body.
        async fn find_document(
            &mut self,
            name: &Name,
            kind: &str,
            digest: BlobDigest,
        ) -> Result<Option<DocumentRow>, StoreError> {
            let row: Option<DocumentColumns> = sqlx::query_as(sql::DOCUMENT)
                .bind(name.as_str())
                .bind(kind)
                .bind(digest.to_string())
                .fetch_optional(&mut *self)
                .await?;
            row.map(document).transpose()
        }
    }
}

impl MetaStore {
    /// Keeps a document, and with it, in the same transaction, the commitment that it is, if it is one.
    ///
    /// # Errors
    /// When the database fails; then nothing has happened.
    pub async fn keep_document(
        &self,
        name: &Name,
        new: &NewDocument<'_>,
        commitment: Option<&Commitment<'_>>,
        news: impl Fn(&DocumentRow) -> News + Send + Sync,
    ) -> Result<Keeping, StoreError> {
        write!(self, |tx| {
            tx.lock(sql::LOCK_RUN, name.as_str()).await?;
            let Some(run) = tx.find_run(name).await? else { return Ok(Keeping::NoRun) };
            let mut step = Step::Replay;
            if let Some(commitment) = commitment {
                let held: Option<(String, String)> = sqlx::query_as(sql::COMMITMENT)
                    .bind(name.as_str())
                    .bind(commitment.participant)
                    .bind(signed(commitment.from_round))
                    .fetch_optional(&mut *tx)
                    .await?;
                let held = held.map(|(root, digest)| {
                    let root = root.parse().map_err(|_| corrupt("commitments", "merkle_root"))?;
                    Ok::<_, StoreError>((root, digest.parse().map_err(|_| corrupt("commitments", "digest"))?))
                });
                let head = run.tip.as_ref().map(|tip| tip.round);
                match check_commitment(&run.pins, commitment, head, held.transpose()?) {
                    Ok(allowed) => step = allowed,
                    Err(error) => return Ok(Keeping::Refused(error)),
                }
            }
            let existing = tx.find_document(name, new.kind, new.digest).await?;
            if step == Step::Replay
                && let Some(row) = existing
            {
                let unused = match new.bytes {
                    DocumentBytes::Here(_) => None,
                    DocumentBytes::Stored(ready) => tx.adopt_blob(true, new.digest, new.size, ready).await?,
                };
                tx.commit().await?;
                return Ok(Keeping::Done { row, created: false, unused });
            }
            let seq: i64 = sqlx::query_scalar(sql::COUNT_EVENT).bind(name.as_str()).fetch_one(&mut *tx).await?;
            let mut unused = None;
            let row = if let Some(row) = existing {
                row
            } else {
                let body = match new.bytes {
                    DocumentBytes::Here(body) => Some(body),
                    DocumentBytes::Stored(ready) => {
                        unused = tx.adopt_blob(true, new.digest, new.size, ready).await?;
                        None
                    }
                };
                sqlx::query(sql::INSERT_DOCUMENT)
                    .bind(name.as_str())
                    .bind(new.kind)
                    .bind(new.digest.to_string())
                    .bind(seq)
                    .bind(i64::from(new.schema_version))
                    .bind(signed(new.size))
                    .bind(body)
                    .bind(new.summary)
                    .bind(new.at)
                    .execute(&mut *tx)
                    .await?;
                tx.find_document(name, new.kind, new.digest).await?.ok_or_else(|| corrupt(DOCUMENTS, "digest"))?
            };
            if let Some(commitment) = commitment
                && step == Step::Advance
            {
                sqlx::query(sql::INSERT_COMMITMENT)
                    .bind(name.as_str())
                    .bind(commitment.participant)
                    .bind(signed(commitment.from_round))
                    .bind(commitment.root.to_string())
                    .bind(new.digest.to_string())
                    .bind(new.at)
                    .execute(&mut *tx)
                    .await?;
            }
            let (kind, data) = news(&row);
            sqlx::query(sql::INSERT_EVENT)
                .bind(name.as_str())
                .bind(seq)
                .bind(kind)
                .bind(new.at)
                .bind(data)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(Keeping::Done { row, created: true, unused })
        })
    }

    /// A document without its body.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn document(
        &self,
        name: &Name,
        kind: &str,
        digest: BlobDigest,
    ) -> Result<Option<DocumentRow>, StoreError> {
        read!(self, |connection| connection.find_document(name, kind, digest).await)
    }

    /// A document's bytes, unless they lie in the store.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn document_body(
        &self,
        name: &Name,
        kind: &str,
        digest: BlobDigest,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let row: Option<Option<Vec<u8>>> = read!(self, |connection| sqlx::query_scalar(sql::DOCUMENT_BODY)
            .bind(name.as_str())
            .bind(kind)
            .bind(digest.to_string())
            .fetch_optional(&mut *connection)
            .await?);
        Ok(row.flatten())
    }

    /// Documents below a place, newest first, of one kind or of all.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn documents(
        &self,
        name: &Name,
        kind: Option<&str>,
        below: u64,
        limit: u32,
    ) -> Result<Vec<DocumentRow>, StoreError> {
        let statement = if kind.is_some() { sql::DOCUMENTS_OF_KIND } else { sql::DOCUMENTS };
        let rows: Vec<DocumentColumns> = read!(self, |connection| {
            let mut query = sqlx::query_as(statement).bind(name.as_str()).bind(signed(below)).bind(i64::from(limit));
            if let Some(kind) = kind {
                query = query.bind(kind);
            }
            query.fetch_all(&mut *connection).await?
        });
        rows.into_iter().map(document).collect()
    }

    /// The bytes of the newest document of a kind whose summary begins so.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn newest_document(
        &self,
        name: &Name,
        kind: &str,
        summary: &str,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        Ok(read!(self, |connection| sqlx::query_as(sql::NEWEST_DOCUMENT)
            .bind(name.as_str())
            .bind(kind)
            .bind(summary)
            .fetch_optional(&mut *connection)
            .await?))
    }

    /// True when some run keeps a document with this digest, or some artifact a file.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn holds_bytes(&self, digest: BlobDigest) -> Result<bool, StoreError> {
        let found: Option<i64> = read!(self, |connection| sqlx::query_scalar(sql::DIGEST_EXISTS)
            .bind(digest.to_string())
            .fetch_optional(&mut *connection)
            .await?);
        Ok(found.is_some())
    }

    /// Every commitment of a run.
    ///
    /// # Errors
    /// When the database fails or a row is unreadable.
    pub async fn commitments(&self, name: &Name) -> Result<Vec<CommitmentRow>, StoreError> {
        const TABLE: &str = "commitments";
        let rows: Vec<(String, i64, String, String, i64)> = read!(self, |connection| sqlx::query_as(sql::COMMITMENTS)
            .bind(name.as_str())
            .fetch_all(&mut *connection)
            .await?);
        rows.into_iter()
            .map(|(participant, from, root, digest, received_at)| {
                Ok(CommitmentRow {
                    participant,
                    from_round: count(from, TABLE, "from_round")?,
                    merkle_root: root.parse().map_err(|_| corrupt(TABLE, "merkle_root"))?,
                    digest: digest.parse().map_err(|_| corrupt(TABLE, "digest"))?,
                    received_at,
                })
            })
            .collect()
    }
}
