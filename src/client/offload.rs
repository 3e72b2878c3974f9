//! Reading, hashing and writing, kept away from the threads that serve connections.

use tokio::task::{JoinHandle, spawn_blocking};

use super::error::{Error, Kind};
use crate::core::error::{DomainError, ErrorCode};

/// Starts the work.
pub(super) fn start<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> JoinHandle<Result<T, Error>> {
    spawn_blocking(work)
}

/// Waits for work that was started.
pub(super) async fn done<T>(work: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    work.await.unwrap_or_else(|error| {
        let error = DomainError::new(ErrorCode::Internal, format!("the work was not finished: {error}"));
        Err(Error::new(Kind::Unavailable, &error))
    })
}

/// Does the work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    done(start(work)).await
}
