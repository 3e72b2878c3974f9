//! Which failures may pass by themselves, and how long to wait for that.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::error::Error;
use super::progress::Progress;

/// Attempts in a row that may fail without any progress in between.
const ATTEMPTS: u32 = 8;
/// The wait after the first failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait of our own choice.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The longest wait that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_mins(2);

/// Why one attempt failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// May pass: a broken connection, a timeout, a server that is restarting.
    Passing {
        /// What to report if it does not pass.
        error: Error,
        /// How long the server asks to wait.
        after: Option<Duration>,
    },
    /// Will be the same next time.
    Final(Error),
}

impl Trouble {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Passing { error, .. } | Self::Final(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Counts failures in a row. Any progress starts the count anew.
#[derive(Debug, Default)]
pub(super) struct Patience {
    failures: u32,
}

impl Patience {
    /// Something got done since the last failure.
    pub(super) const fn progressed(&mut self) {
        self.failures = 0;
    }

    /// Waits until the next attempt makes sense.
    ///
    /// # Errors
    /// The trouble's own error when it is final or when there were enough attempts.
    pub(super) async fn wait(&mut self, trouble: Trouble, progress: &dyn Progress) -> Result<(), Error> {
        let (error, after) = match trouble {
            Trouble::Passing { error, after } if self.failures + 1 < ATTEMPTS => (error, after),
            other => return Err(other.into_error()),
        };
        let wait = wait_after(self.failures, fraction()).max(after.unwrap_or_default().min(LONGEST_ASKED));
        self.failures += 1;
        progress.note(&format!("{}; trying again in {:.1} s", error.problem().message, wait.as_secs_f64()));
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Repeats one request until it succeeds or patience ends.
///
/// # Errors
/// The last error.
pub(super) async fn patiently<T>(
    progress: &dyn Progress,
    mut attempt: impl AsyncFnMut() -> Result<T, Trouble>,
) -> Result<T, Error> {
    let mut patience = Patience::default();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(trouble) => patience.wait(trouble, progress).await?,
        }
    }
}

/// Doubles from [`FIRST_WAIT`] to [`LONGEST_WAIT`]; between half and the whole of it, so that clients that failed
/// together do not come back together.
fn wait_after(failures: u32, fraction: f64) -> Duration {
    let whole = FIRST_WAIT.saturating_mul(1 << failures.min(16)).min(LONGEST_WAIT);
    whole.mul_f64(fraction.clamp(0.0, 1.0).mul_add(0.5, 0.5))
}

/// A number from 0 to 1 that differs between processes: all that spreading out needs, without a random generator.
fn fraction() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(0) & 0xffff).unwrap_or(0)) / f64::from(u16::MAX)
}

/// Reads a `Retry-After` in seconds; its other form, a date, would need the server's clock.
pub(super) fn retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::progress::Silent;

    #[test]
    fn waits_double_up_to_a_limit_and_are_spread_over_half_of_it() {
        assert_eq!(wait_after(0, 1.0), FIRST_WAIT);
        assert_eq!(wait_after(0, 0.0), FIRST_WAIT / 2);
        assert_eq!(wait_after(3, 1.0), FIRST_WAIT * 8);
        assert_eq!(wait_after(9, 1.0), LONGEST_WAIT);
        assert_eq!(wait_after(u32::MAX, 0.0), LONGEST_WAIT / 2);
        assert!((0.0..=1.0).contains(&fraction()));
    }

    #[test]
    fn only_seconds_are_read_from_retry_after() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(retry_after("-1"), None);
    }

    fn passing() -> Trouble {
        Trouble::Passing { error: Error::unavailable("gone", "wait"), after: None }
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_without_progress_and_a_final_trouble_is_not_waited_for() {
        let mut attempts = 0;
        let result: Result<(), Error> = patiently(&Silent, async || {
            attempts += 1;
            Err(passing())
        })
        .await;
        assert_eq!(result.unwrap_err().problem().message, "gone");
        assert_eq!(attempts, ATTEMPTS);

        let mut attempts = 0;
        let result: Result<(), Error> = patiently(&Silent, async || {
            attempts += 1;
            Err(Trouble::Final(Error::usage("no", "do not")))
        })
        .await;
        assert!(result.is_err());
        assert_eq!(attempts, 1);

        let mut patience = Patience::default();
        for _ in 0..100 {
            patience.wait(passing(), &Silent).await.unwrap();
            patience.progressed();
        }
    }
}
