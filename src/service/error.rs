//! Why an operation failed, before anybody has spoken of HTTP.

use std::io;

use crate::core::error::{DomainError, ErrorCode};
use crate::store::meta::StoreError;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// What was asked for is refused; the caller can mend it.
    #[error(transparent)]
    Refused(#[from] DomainError),
    /// What was asked for contradicts what is stored.
    #[error("conflict: {0}")]
    Conflict(DomainError),
    /// A document does not follow its schema, or does not agree with itself.
    #[error("malformed: {0}")]
    Malformed(DomainError),
    /// Stored bytes are not what they were; the registry is at fault.
    #[error("stored bytes are damaged: {0}")]
    Damaged(DomainError),
    /// What is stored cannot be shown in the way that was asked for.
    #[error("no such view: {0}")]
    NoSuchView(DomainError),
    /// The body ended before its time.
    #[error("the body was cut short: {0}")]
    Cut(String),
    /// The database failed.
    #[error("database")]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error("{doing}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A worker died; its panic is in the log.
    #[error("a worker stopped unexpectedly")]
    Worker(#[from] tokio::task::JoinError),
}

impl ServiceError {
    /// Wraps a disk error with what was being done.
    pub fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// 404.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::Refused(DomainError::new(ErrorCode::RegistryNotFound, format!("{what} is not in this registry")))
    }

    /// The refusal that may be shown, if this is one.
    #[must_use]
    pub const fn domain(&self) -> Option<&DomainError> {
        match self {
            Self::Refused(error)
            | Self::Conflict(error)
            | Self::Malformed(error)
            | Self::Damaged(error)
            | Self::NoSuchView(error) => Some(error),
            _ => None,
        }
    }
}
