//! Waiting for a run's next round, over a network that comes and goes.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use tokio::time::Instant;

use super::error::Error;
use super::retry::{Patience, Trouble};
use super::run::RemoteRun;
use crate::api::run::Head;

/// How long the server is asked to hold its answer back.
const HOLD: Duration = Duration::from_secs(30);

/// Answers without news that come faster than this were not held back; asking on at once would keep both sides busy.
const PAUSE: Duration = Duration::from_secs(1);

impl RemoteRun<'_> {
    /// Waits until a round above `after` is committed, or, without one, until there is a newer round than now. `None`
    /// when that took longer than `most`. A server that goes away meanwhile is waited for.
    ///
    /// # Errors
    /// A verdict when there is no such run; otherwise what stood in the way from the beginning.
    pub async fn wait(&self, after: Option<u64>, most: Option<Duration>) -> Result<Option<Head>, Error> {
        let news = self.newer(after);
        match most {
            None => news.await.map(Some),
            Some(most) => tokio::time::timeout(most, news).await.ok().transpose(),
        }
    }

    async fn newer(&self, after: Option<u64>) -> Result<Head, Error> {
        let mut patience = Patience::default();
        // Without a round to begin with, the first look tells which one it is: none at all before round 0.
        let (mut known, mut compares) = (after, after.is_some());
        let (mut tag, mut away) = (None, false);
        loop {
            let (asked, held) = (Instant::now(), tag.is_some());
            match self.look(tag.as_ref()).await {
                Ok(Some((head, its))) => {
                    if compares && head.round_index > known {
                        return Ok(head);
                    }
                    if !compares {
                        (known, compares) = (head.round_index, true);
                    }
                    tag = its;
                    (patience, away) = (Patience::default(), false);
                }
                Ok(None) => (patience, away) = (Patience::default(), false),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing { error, .. }) => {
                    if !away {
                        self.progress.note(&format!("{}; waiting for it", error.problem().message));
                    }
                    away = true;
                    patience.pause(u32::MAX).await;
                    continue;
                }
            }
            if asked.elapsed() < PAUSE && (held || tag.is_none()) {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The head with its tag, as soon as it is another than the one with `tag`; `None` when it stays the same.
    async fn look(&self, tag: Option<&HeaderValue>) -> Result<Option<(Head, Option<HeaderValue>)>, Trouble> {
        let mut url = self.part("head");
        let mut limit = self.server.idle();
        if tag.is_some() {
            url.query_pairs_mut().append_pair("wait", &format!("{}s", HOLD.as_secs()));
            limit += HOLD;
        }
        let mut request = self.server.request(Method::GET, url);
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let Some(answer) = self.server.ask_changed(limit, request).await? else { return Ok(None) };
        let tag = answer.headers().get(ETAG).cloned();
        Ok(Some((self.server.json(answer).await?, tag)))
    }
}
