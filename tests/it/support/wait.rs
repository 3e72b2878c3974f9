//! Waiting for a condition, with a deadline instead of a guess.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long anything may take on a machine that is busy with other things too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until the answer is `Some`.
///
/// # Panics
/// When that does not happen in time.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The result of a future that must not hang.
///
/// # Panics
/// When it does.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} took longer than {PATIENCE:?}"),
    }
}
