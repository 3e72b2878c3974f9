//! Runs as a client sees them: registered, listed, looked at.

use std::sync::Arc;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use super::error::Error;
use super::progress::Progress;
use super::retry::patiently;
use super::server::Server;
use crate::api::route;
use crate::api::run::{Abort, Aborts, Head, NewRun, Resolved, Round, Rounds, Run, Runs};
use crate::core::document::contribution::ContributionRecord;
use crate::core::run::Name;

/// Entries in one answer of a list: the most there can be.
const PAGE: usize = 1000;

/// The longest ledger that is read into memory.
const LARGEST_LEDGER: usize = 16 << 20;

/// Registers a run; whether it is new. `registration` is a [`NewRun`] as JSON and is sent as it stands, so that the
/// server refuses what it does not know.
///
/// # Errors
/// A verdict when the server refuses the pins, or has a run of this name with others.
pub async fn create(
    server: &Server,
    registration: Vec<u8>,
    progress: &Arc<dyn Progress>,
) -> Result<(Run, bool), Error> {
    patiently(&**progress, async || {
        let request = server.request(Method::POST, server.url(route::RUNS));
        server.post(request.header(CONTENT_TYPE, "application/json").body(registration.clone())).await
    })
    .await
}

/// A registration as it travels.
#[must_use]
pub fn registration(run: &NewRun) -> Vec<u8> {
    // Strings, numbers and lists: nothing in it could fail.
    serde_json::to_vec(run).unwrap_or_default()
}

/// Every run of a registry, newest first.
///
/// # Errors
/// What stood in the way.
pub async fn list(server: &Server, progress: &Arc<dyn Progress>) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    let mut cursor = None;
    loop {
        let url = page(server.url(route::RUNS), PAGE, cursor.as_deref());
        let answer: Runs = patiently(&**progress, async || server.get(url.clone()).await).await?;
        runs.extend(answer.runs);
        cursor = answer.next_cursor;
        if cursor.is_none() {
            return Ok(runs);
        }
    }
}

/// A run on a server. Nothing is known of it yet but its name.
pub struct RemoteRun<'a> {
    pub(super) server: &'a Server,
    pub(super) name: Name,
    pub(super) progress: &'a Arc<dyn Progress>,
}

impl<'a> RemoteRun<'a> {
    /// Names a run; nothing is sent yet.
    ///
    /// # Errors
    /// A usage error for what cannot be the name of a run.
    pub fn new(server: &'a Server, name: &str, progress: &'a Arc<dyn Progress>) -> Result<Self, Error> {
        let name = name.parse().map_err(|not| Error::usage(format!("{name:?} names no run: {not}"), "Check the name."));
        Ok(Self { server, name: name?, progress })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Its pins, and where it stands.
    ///
    /// # Errors
    /// A verdict when there is none of this name.
    pub async fn show(&self) -> Result<Run, Error> {
        self.get(self.server.url(&route::run(self.name.as_str()))).await
    }

    /// What it stands at.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn head(&self) -> Result<Head, Error> {
        self.get(self.part("head")).await
    }

    /// One round.
    ///
    /// # Errors
    /// A verdict when it is not committed.
    pub async fn round(&self, index: u64) -> Result<Round, Error> {
        self.get(self.server.url(&route::round(self.name.as_str(), index))).await
    }

    /// Its rounds, newest first; at most so many.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn rounds(&self, most: usize) -> Result<Vec<Round>, Error> {
        let mut rounds = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let wanted = (most - rounds.len()).clamp(1, PAGE);
            let answer: Rounds = self.get(page(self.part("rounds"), wanted, cursor.as_deref())).await?;
            rounds.extend(answer.rounds);
            cursor = answer.next_cursor;
            if cursor.is_none() || rounds.len() >= most {
                rounds.truncate(most);
                return Ok(rounds);
            }
        }
    }

    /// Its aborts, newest first, down to those of one round.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn aborts(&self, oldest: u64) -> Result<Vec<Abort>, Error> {
        let mut aborts = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let answer: Aborts = self.get(page(self.part("aborts"), PAGE, cursor.as_deref())).await?;
            aborts.extend(answer.aborts);
            cursor = answer.next_cursor;
            let enough = aborts.last().is_none_or(|last: &Abort| last.round_index < oldest);
            if cursor.is_none() || enough {
                aborts.retain(|abort| abort.round_index >= oldest);
                return Ok(aborts);
            }
        }
    }

    /// Its contribution records, oldest first.
    ///
    /// # Errors
    /// A verdict when a line is no record; also when the ledger is too long to be read whole.
    pub async fn records(&self) -> Result<Vec<ContributionRecord>, Error> {
        let url = self.part("ledger");
        let text = patiently(&**self.progress, async || {
            let answer = self.server.ask(self.server.request(Method::GET, url.clone())).await?;
            self.server.body(answer, LARGEST_LEDGER).await
        });
        let text = text.await?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(ContributionRecord::parse).collect::<Result<_, _>>()?)
    }

    /// Where a locator leads.
    ///
    /// # Errors
    /// A verdict when it leads nowhere.
    pub async fn resolve(&self, locator: &str) -> Result<Resolved, Error> {
        let mut url = self.part("resolve");
        url.query_pairs_mut().append_pair("locator", locator);
        self.get(url).await
    }

    pub(super) fn part(&self, part: &str) -> Url {
        self.server.url(&route::of_run(self.name.as_str(), part))
    }

    async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, Error> {
        patiently(&**self.progress, async || self.server.get(url.clone()).await).await
    }
}

fn page(mut url: Url, limit: usize, cursor: Option<&str>) -> Url {
    let mut query = url.query_pairs_mut();
    query.append_pair("limit", &limit.to_string());
    if let Some(cursor) = cursor {
        query.append_pair("cursor", cursor);
    }
    drop(query);
    url
}
