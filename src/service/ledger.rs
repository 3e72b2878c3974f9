//! The ledger of a run, as the file that Lensemble's own reader opens.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;

use super::error::ServiceError;
use super::registry::Registry;
use crate::core::run::Name;
use crate::store::meta::StoreError;

/// Lines that are read at a time.
const PAGE: u32 = 500;

impl Registry {
    /// The ledger as JSON Lines, a page of lines at a time: memory does not grow with it. What is committed while it is
    /// sent is not in it. The stream, and the hash of the last record.
    ///
    /// # Errors
    /// When there is no run of this name.
    pub async fn ledger(
        self: &Arc<Self>,
        run: &Name,
    ) -> Result<(impl Stream<Item = Result<Bytes, StoreError>> + Send + use<>, Option<String>), ServiceError> {
        let row = self.run_row(run).await?;
        let tail = row.ledger.map(|tail| tail.record_hash.to_string());
        let last = row.ledger.map(|tail| tail.round_index);
        let (registry, run) = (Arc::clone(self), run.clone());
        let lines = futures_util::stream::try_unfold((0, false), move |(from, ended)| {
            let (registry, run) = (Arc::clone(&registry), run.clone());
            async move {
                let (Some(last), false) = (last, ended) else { return Ok(None) };
                let page = registry.meta.ledger_page(&run, from, PAGE).await?;
                let mut text = String::new();
                for line in page.iter().take_while(|line| line.round_index <= last) {
                    text.push_str(&line.line);
                    text.push('\n');
                }
                let next = page.last().map_or(u64::MAX, |line| line.round_index + 1);
                let ended = page.len() < PAGE as usize || next > last;
                Ok(Some((Bytes::from(text), (next, ended))))
            }
        });
        Ok((lines, tail))
    }
}
