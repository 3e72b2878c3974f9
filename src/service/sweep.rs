//! Reclaims what no row refers to: files of uploads that a crash cut short, and sessions that nobody continues.

use std::sync::Arc;

use super::error::ServiceError;
use super::registry::{Registry, now_micros};
use super::session::lock;
use crate::store::blob::BlobKey;

impl Registry {
    /// The keys that lie on the disk now. Called before the server listens: whatever of it no row refers to belongs to
    /// an upload of an earlier process, since this process has not taken in anything yet.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn leftovers(&self) -> Result<Vec<BlobKey>, ServiceError> {
        let blobs = self.blobs.clone();
        let keys = tokio::task::spawn_blocking(move || {
            let shelves = (0..=255).map(|shelf| blobs.keys_on(shelf));
            shelves.collect::<Result<Vec<_>, _>>().map(|shelves| shelves.concat())
        });
        keys.await?.map_err(ServiceError::io("list the store"))
    }

    /// Removes those of `keys` that no row refers to; how many there were.
    ///
    /// # Errors
    /// When the database fails; what is left is found again at the next start.
    pub async fn reclaim(self: &Arc<Self>, keys: Vec<BlobKey>) -> Result<usize, ServiceError> {
        let mut removed = 0;
        for key in keys {
            if !self.meta.key_in_use(key.as_str()).await? {
                self.discard(vec![key]).await;
                removed += 1;
            }
        }
        if removed > 0 {
            tracing::info!(removed, "files of unfinished uploads removed");
        }
        Ok(removed)
    }

    /// Drops sessions whose time is over; how many there were.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire(&self) -> Result<usize, ServiceError> {
        let mut expired = 0;
        loop {
            let sessions = self.meta.expire_uploads(now_micros()).await?;
            if sessions.is_empty() {
                return Ok(expired);
            }
            self.heads.changed();
            for (id, keys) in sessions {
                expired += 1;
                lock(&self.sessions).remove(&id);
                self.discard(keys.iter().filter_map(|key| BlobKey::parse(key)).collect()).await;
            }
        }
    }
}
