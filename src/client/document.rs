//! Documents of a run: what describes it, and what its participants are bound to.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;

use super::error::Error;
use super::retry::patiently;
use super::run::RemoteRun;
use crate::api::route;
use crate::api::run::{Commitment, Document};

impl RemoteRun<'_> {
    /// Lets the registry keep a document, byte by byte; true beside it when it was not kept before.
    ///
    /// # Errors
    /// A verdict when the document does not follow its schema, or contradicts the run.
    pub async fn keep_document(&self, kind: &str, body: Vec<u8>) -> Result<(Document, bool), Error> {
        self.keep(self.server.url(&route::documents_of_kind(self.name.as_str(), kind)), body).await
    }

    /// Binds a participant to the data set of a DatasetCommitment, from a round on or from the open one; true beside it
    /// when it was not bound to it before.
    ///
    /// # Errors
    /// A verdict when the round is closed or the participant is bound to other data.
    pub async fn commit_dataset(
        &self,
        participant: &str,
        body: Vec<u8>,
        from_round: Option<u64>,
    ) -> Result<(Commitment, bool), Error> {
        let mut url = self.server.url(&route::commitments_of(self.name.as_str(), participant));
        if let Some(round) = from_round {
            url.query_pairs_mut().append_pair("from_round", &round.to_string());
        }
        self.keep(url, body).await
    }

    async fn keep<T: DeserializeOwned>(&self, url: Url, body: Vec<u8>) -> Result<(T, bool), Error> {
        patiently(&**self.progress, async || {
            let request = self.server.request(Method::POST, url.clone());
            self.server.post(request.header(CONTENT_TYPE, "application/json").body(body.clone())).await
        })
        .await
    }
}

/// Reads a file that is known to be small.
///
/// # Errors
/// When it cannot be read, or is larger than `most` bytes.
pub fn read_small(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(|error| Error::io("cannot read", path, &error))?;
    if bytes.len() as u64 > most {
        return Err(Error::usage(format!("{} is larger than {most} bytes", path.display()), "Name another file."));
    }
    Ok(bytes)
}
