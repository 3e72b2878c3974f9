//! What an operation of the client fails with: a problem document, and whether it is a verdict or an obstacle.

use std::fmt;
use std::io;
use std::path::Path;

use crate::api::problem::Problem;
use crate::core::error::{DomainError, ErrorCode};

/// What a failure means for whoever called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes were looked at here and are not what they claim to be.
    Integrity,
    /// The server looked and said no.
    Refused,
    /// The server, the network or the local disk did not do their part.
    Unavailable,
    /// The call itself cannot be carried out.
    Usage,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    kind: Kind,
    problem: Box<Problem>,
}

impl Error {
    /// A failure of this kind; no HTTP was spoken.
    #[must_use]
    pub fn new(kind: Kind, error: &DomainError) -> Self {
        Self { kind, problem: Box::new(Problem::new(error, 0)) }
    }

    /// What a server answered.
    #[must_use]
    pub fn answered(kind: Kind, problem: Problem) -> Self {
        Self { kind, problem: Box::new(problem) }
    }

    /// The call cannot be carried out as it stands.
    #[must_use]
    pub fn usage(message: impl Into<String>, remedy: &'static str) -> Self {
        Self::new(Kind::Usage, &DomainError::new(ErrorCode::ConfigInvalid, message).remedy(remedy))
    }

    /// The server cannot be reached or does not make sense.
    #[must_use]
    pub fn unavailable(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let error = DomainError::new(ErrorCode::RegistryUnavailable, message).remedy(remedy.into());
        Self::new(Kind::Unavailable, &error)
    }

    /// A local file or directory cannot be used; `doing` reads like "cannot write".
    #[must_use]
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let message = format!("{doing} {}: {error}", path.display());
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let error = if full {
            DomainError::new(ErrorCode::RegistryStorageFull, message).remedy("Free some space on this disk.")
        } else {
            DomainError::new(ErrorCode::Internal, message).remedy("Check the path and its permissions.")
        };
        Self::new(Kind::Unavailable, &error)
    }

    /// What it means for the caller.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The whole of it, as it is shown to programs.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    /// True when the thing that was checked is wrong; false when it could not be checked.
    #[must_use]
    pub const fn is_verdict(&self) -> bool {
        matches!(self.kind, Kind::Integrity | Kind::Refused)
    }

    /// True when the failure has this code.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
        self.problem.code == code.as_str()
    }

    /// Adds a carried value unless the name is taken.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.problem.fields.entry(name.to_owned()).or_insert_with(|| value.into());
        self
    }
}

impl From<DomainError> for Error {
    /// What `core` refuses was looked at here.
    fn from(error: DomainError) -> Self {
        Self::new(Kind::Integrity, &error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for Error {}
