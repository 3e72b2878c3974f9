//! The registry: what every operation shares.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::OnceCell;

use super::database::Database;
use super::error::ServiceError;
use super::lookup::Memory;
use super::metrics::Metrics;
use super::news::News;
use super::run::Heads;
use super::session::Session;
use super::shelf::Shelf;
use crate::core::digest::ContentHash;
use crate::core::error::DomainError;
use crate::core::limits::Limits;
use crate::store::blob::{BlobKey, LocalBlobs};
use crate::store::meta::MetaStore;

/// What an operator can set.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Limits of what is taken in.
    pub limits: Limits,
    /// How long a session lives after the last stored byte.
    pub session_lifetime: Duration,
    /// How long a body may stand still.
    pub body_idle: Duration,
    /// Bytes after which a session's progress is saved while a body still flows.
    pub checkpoint_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            session_lifetime: Duration::from_hours(24),
            body_idle: Duration::from_mins(1),
            checkpoint_bytes: 64 << 20,
        }
    }
}

/// The registry.
#[derive(Debug)]
pub struct Registry {
    pub(super) meta: MetaStore,
    pub(super) blobs: LocalBlobs,
    pub(super) options: Options,
    /// Sessions that some request is working on; a session that nobody works on lives in the database only.
    pub(super) sessions: Mutex<HashMap<String, Weak<OnceCell<Session>>>>,
    pub(super) memory: Memory,
    pub(super) shelf: Shelf,
    pub(super) heads: Heads,
    pub(super) news: News,
    pub(super) metrics: Metrics,
    /// Holds the data directory for this process alone.
    _lock: std::fs::File,
}

impl Registry {
    /// Opens the registry in a data directory, with its rows in SQLite, and makes it if it is not there.
    ///
    /// # Errors
    /// When the directory cannot be used, another server is using it, or its database is newer than this program.
    pub async fn open(data_dir: &Path, options: Options) -> Result<Arc<Self>, ServiceError> {
        Self::open_on(&Database::Sqlite, data_dir, options).await
    }

    /// The same, with the rows in a database of one's choice. Only this server may write to it.
    ///
    /// # Errors
    /// As for [`open`](Self::open); and when the files in the directory belong to another database.
    pub async fn open_on(database: &Database, data_dir: &Path, options: Options) -> Result<Arc<Self>, ServiceError> {
        let dir = data_dir.to_owned();
        let (lock, blobs) = tokio::task::spawn_blocking(move || {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .map_err(ServiceError::io("make the data directory"))?;
            let lock = std::fs::File::create(dir.join("lock")).map_err(ServiceError::io("open the lock file"))?;
            lock.try_lock().map_err(|error| ServiceError::Io {
                doing: "lock the data directory; another server is using it",
                source: error.into(),
            })?;
            let blobs = LocalBlobs::open(&dir.join("blobs")).map_err(ServiceError::io("open the blob directory"))?;
            Ok::<_, ServiceError>((lock, blobs))
        })
        .await??;
        let meta = database.open(data_dir, &blobs).await?;
        Ok(Arc::new(Self {
            meta,
            blobs,
            options,
            sessions: Mutex::default(),
            memory: Memory::new(),
            shelf: Shelf::new(),
            heads: Heads::new(),
            news: News::new(),
            metrics: Metrics::new(),
            _lock: lock,
        }))
    }

    /// The limits in force.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Closes the database, so that nothing is left to recover.
    pub async fn close(&self) {
        self.meta.close().await;
    }

    /// Asks database and store whether they work.
    ///
    /// # Errors
    /// When one of them does not.
    pub async fn ready(&self) -> Result<(), ServiceError> {
        self.meta.ping().await?;
        let blobs = self.blobs.clone();
        tokio::task::spawn_blocking(move || blobs.probe()).await?.map_err(ServiceError::io("write to the store"))
    }

    /// Writes an audit record and a line in the log for a refusal that must never be swallowed.
    pub(super) async fn witness(&self, error: &DomainError, subject: Option<ContentHash>) {
        if !error.code().is_critical() {
            return;
        }
        self.metrics.refused(error.code());
        let subject = subject.map_or_else(String::new, |hash| hash.to_string());
        let detail = serde_json::to_string(error.fields()).unwrap_or_default();
        tracing::error!(severity = "CRITICAL", code = %error.code(), artifact.hash = %subject, "{}", error.message());
        if let Err(failure) = self.meta.record(now_micros(), error.code().as_str(), &subject, &detail).await {
            tracing::error!(error = ?failure, "the audit record could not be written");
        }
    }

    /// Removes blobs, except those that a row refers to after all.
    pub(super) async fn discard_unused(&self, keys: Vec<BlobKey>) {
        let mut unused = Vec::new();
        for key in keys {
            // In doubt the file stays; the next start looks again.
            if matches!(self.meta.key_in_use(key.as_str()).await, Ok(false)) {
                unused.push(key);
            }
        }
        self.discard(unused).await;
    }

    /// Removes blobs that nothing refers to any more. A failure costs space, not truth; the next start tries again.
    pub(super) async fn discard(&self, keys: Vec<BlobKey>) {
        if keys.is_empty() {
            return;
        }
        let (blobs, span) = (self.blobs.clone(), tracing::Span::current());
        let removed = tokio::task::spawn_blocking(move || {
            let _inside = span.entered();
            for key in keys {
                if let Err(error) = blobs.remove(&key) {
                    tracing::warn!(%error, blob.key = %key, "a blob could not be removed");
                }
            }
        });
        if removed.await.is_err() {
            tracing::warn!("the removal of blobs stopped");
        }
    }
}

/// The wall clock in microseconds since 1970, the one place where it is read.
#[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
pub(super) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A name that nobody can guess.
pub(super) fn random_key() -> Result<BlobKey, ServiceError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|_| ServiceError::Io { doing: "read random bits", source: std::io::ErrorKind::Other.into() })?;
    Ok(BlobKey::from_bits(bits))
}

/// Writes microseconds since 1970 as RFC 3339.
pub(super) fn rfc3339(micros: i64) -> String {
    time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000)
        .ok()
        .and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_default()
}
