//! News of runs for those who wait: nothing is polled, and whoever waits costs one small entry.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::error::ServiceError;
use super::registry::Registry;
use crate::core::run::Name;
use crate::store::meta::news::EventRow;

/// Events in one read.
const PAGE: u32 = 100;

/// Who waits for what.
#[derive(Debug)]
pub(super) struct News {
    waiting: Mutex<HashMap<Name, watch::Sender<u64>>>,
    closing: watch::Sender<bool>,
}

impl News {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), closing: watch::Sender::new(false) }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Name, watch::Sender<u64>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody who waits for news of a run that there are some.
    pub(super) fn tell(&self, run: &Name) {
        let mut waiting = self.waiting();
        if let Some(sender) = waiting.get(run) {
            if sender.receiver_count() == 0 {
                waiting.remove(run);
            } else {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    fn subscribe(&self, run: &Name) -> watch::Receiver<u64> {
        let mut waiting = self.waiting();
        waiting.entry(run.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }
}

/// News of one run from one place on.
#[derive(Debug)]
pub struct Subscription {
    run: Name,
    after: u64,
    told: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
}

impl Subscription {
    /// Waits until there may be news; false when the server is about to stop.
    pub async fn changed(&mut self) -> bool {
        if *self.closing.borrow() {
            return false;
        }
        tokio::select! {
            told = self.told.changed() => told.is_ok(),
            _ = self.closing.changed() => false,
        }
    }
}

impl Registry {
    /// Ends every wait, so that the server can stop.
    pub fn stop_waiting(&self) {
        self.news.closing.send_replace(true);
    }

    /// How many wait for news now.
    #[must_use]
    pub fn waiting_for_news(&self) -> usize {
        self.news.waiting().values().map(watch::Sender::receiver_count).sum()
    }

    /// News of a run after an event; `None` means from now on.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn subscribe(&self, run: &Name, after: Option<u64>) -> Result<Subscription, ServiceError> {
        // A name that is no run's gets no entry, or anybody could fill the memory with names.
        self.run_row(run).await?;
        // The ear comes before the look, so that nothing falls between them.
        let told = self.news.subscribe(run);
        let row = self.run_row(run).await?;
        Ok(Subscription {
            run: run.clone(),
            after: after.unwrap_or(row.event_seq),
            told,
            closing: self.news.closing.subscribe(),
        })
    }

    /// The next events of a subscription, as many as are there, a page at most.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_events(&self, subscription: &mut Subscription) -> Result<Vec<EventRow>, ServiceError> {
        subscription.told.borrow_and_update();
        let events = self.meta.events(&subscription.run, subscription.after, PAGE).await?;
        if let Some(last) = events.last() {
            subscription.after = last.seq;
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Options;

    #[tokio::test]
    async fn a_name_that_is_no_runs_takes_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path(), Options::default()).await.unwrap();
        registry.create_run(br#"{"run":"r","consortium":"c","wmcp_version":"w"}"#).await.unwrap();
        for name in ["a", "b", "r"] {
            let heard = registry.subscribe(&name.parse().unwrap(), None).await;
            assert_eq!(heard.is_ok(), name == "r");
        }
        assert_eq!(registry.news.waiting().len(), 1);
        // The one who listened is gone, so the next news clean up.
        registry.news.tell(&"r".parse().unwrap());
        assert_eq!(registry.news.waiting().len(), 0);
    }
}
