//! An upload session on the server, from opening it to its end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method, Response, StatusCode, Url};

use super::error::{Error, Kind};
use super::feed::{self, Feed, Gauge};
use super::progress::Progress;
use super::retry::{Patience, Trouble, patiently};
use super::server::Server;
use crate::api::artifact::Artifact;
use crate::api::route::{self, PARTIAL_UPLOAD, UPLOAD_LENGTH, UPLOAD_OFFSET};
use crate::api::upload::{Upload, UploadState};
use crate::core::error::ErrorCode;

/// How often a long `finish` is asked how far it is.
const LOOK: Duration = Duration::from_secs(2);
/// Looks at a session that is over before the answer to `finish` counts as lost.
const PATIENT_LOOKS: u32 = 3;

/// Why a session cannot go on.
#[derive(Debug)]
pub(super) enum Setback {
    /// The session is gone; a new one may do.
    Gone(Error),
    /// The upload has failed.
    Failed(Error),
}

impl From<Error> for Setback {
    fn from(error: Error) -> Self {
        if matches!(error.problem().status, 404 | 410) { Self::Gone(error) } else { Self::Failed(error) }
    }
}

/// A session whose address is known.
pub(super) struct Session<'a> {
    server: &'a Server,
    progress: &'a Arc<dyn Progress>,
    url: Url,
}

/// How far a file has come.
pub(super) enum Stored {
    /// This many bytes of the file are stored now.
    Upto(u64),
    /// The session needs no more bytes.
    Finished,
}

impl<'a> Session<'a> {
    /// A session of an earlier run.
    pub(super) const fn known(server: &'a Server, progress: &'a Arc<dyn Progress>, url: Url) -> Self {
        Self { server, progress, url }
    }

    /// Opens a session for a header.
    pub(super) async fn open(
        server: &'a Server,
        progress: &'a Arc<dyn Progress>,
        header: &bytes::Bytes,
    ) -> Result<(Self, Upload), Error> {
        patiently(&**progress, async || {
            let request = server
                .request(Method::POST, server.url(route::UPLOADS))
                .header(CONTENT_TYPE, "application/json")
                .body(header.clone());
            let answer = server.ask_within(server.idle() * 4, request).await?;
            let url = server.location(&answer)?;
            let upload = server.json(answer).await?;
            Ok((Session { server, progress, url }, upload))
        })
        .await
    }

    /// Its address.
    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    fn below(&self, path: impl Fn(&str) -> String) -> Url {
        let mut url = self.url.clone();
        url.set_path(&path(self.url.path()));
        url
    }

    fn file(&self, name: &str) -> Url {
        self.below(|session| route::upload_file(session, name))
    }

    /// The session as the server sees it, if it can still become an artifact.
    pub(super) async fn standing(&self) -> Result<Upload, Setback> {
        let upload: Upload = patiently(&**self.progress, async || self.server.get(self.url.clone()).await).await?;
        match upload.state {
            UploadState::Open | UploadState::Finished => Ok(upload),
            UploadState::Aborted => Err(Setback::Gone(over())),
            UploadState::Refused => Err(match upload.problem {
                Some(problem) => Setback::Failed(Error::answered(Kind::Refused, problem)),
                None => Setback::Gone(over()),
            }),
        }
    }

    /// Where a file continues, asked of the server.
    pub(super) async fn continues(&self, name: &str, len: u64) -> Result<Stored, Setback> {
        let asked = patiently(&**self.progress, async || {
            self.server.ask(self.server.request(Method::HEAD, self.file(name))).await
        })
        .await;
        if let Ok(answer) = &asked
            && let Some(offset) = number(answer, UPLOAD_OFFSET)
            && number(answer, UPLOAD_LENGTH).is_none_or(|told| told == len)
        {
            return Ok(Stored::Upto(offset));
        }
        // A HEAD has no room for a reason; the session itself tells more.
        let upload = self.standing().await?;
        Ok(if upload.state == UploadState::Finished { Stored::Finished } else { Stored::Upto(offset(&upload, name)) })
    }

    /// Sends a file from `offset` to its end in one request; the offset that is stored afterwards. `reached` rises to
    /// where the connection has got bytes. Where the server has refused `offset`, none of them were taken.
    pub(super) async fn append(
        &self,
        feed: &Arc<Mutex<Feed>>,
        (file, name, len): (usize, &str, u64),
        offset: u64,
        moved: impl Fn(u64),
        reached: &mut u64,
    ) -> Result<u64, Trouble> {
        let gauge = Arc::new(Gauge::default());
        let request = self
            .server
            .request(Method::PATCH, self.file(name))
            .header(CONTENT_TYPE, PARTIAL_UPLOAD)
            .header(UPLOAD_OFFSET, offset)
            .header(UPLOAD_LENGTH, len)
            .header(CONTENT_LENGTH, len - offset)
            .body(Body::wrap_stream(feed::body(feed, file, offset, &gauge)));
        let answer = self.watch(request.send(), &gauge, len - offset, |taken| moved(offset + taken)).await;
        gauge.stop();
        let handed = offset + gauge.handed();
        if let Some(failure) = feed::lock(feed).failure() {
            return Err(failure.into());
        }
        let told = answer.as_ref().ok().and_then(|answer| Some((answer.status(), number(answer, UPLOAD_OFFSET)?)));
        if let Some((StatusCode::CONFLICT, right)) = told {
            // An earlier request was still being stored when this one asked.
            return Ok(right);
        }
        *reached = handed.max(*reached);
        self.server.judge(answer?).await?;
        told.map(|(_, offset)| offset).ok_or_else(|| {
            Error::unavailable("the server does not tell how much it has stored", "Check the proxies on the way.")
                .into()
        })
    }

    /// Waits for an answer as long as bytes move.
    async fn watch(
        &self,
        answer: impl Future<Output = reqwest::Result<Response>>,
        gauge: &Gauge,
        len: u64,
        moved: impl Fn(u64),
    ) -> Result<Response, Trouble> {
        /// How often the bytes on the way are shown.
        const TICK: Duration = Duration::from_millis(200);
        let mut answer = std::pin::pin!(answer);
        let (mut last, mut still) = (0, Duration::ZERO);
        loop {
            let tick = TICK.min(self.server.idle());
            if let Ok(answer) = tokio::time::timeout(tick, &mut answer).await {
                return answer.map_err(|error| self.server.broken(&error));
            }
            let taken = gauge.taken();
            if taken > last {
                (last, still) = (taken, Duration::ZERO);
                moved(taken);
                continue;
            }
            still += tick;
            // What was taken last may fill the buffers of a slow line, and the server makes it durable afterwards.
            let limit = if taken >= len { self.server.idle() * 4 } else { self.server.idle() };
            if still >= limit {
                return Err(self.server.silent());
            }
        }
    }

    /// Lets the server judge the upload, however long that takes. True beside the artifact when this upload made it;
    /// where an answer was lost, `fresh` tells whether it was missing before.
    pub(super) async fn finish(&self, fresh: bool) -> Result<(Artifact, bool), Setback> {
        let mut patience = Patience::default();
        let (mut lost, mut verified) = (false, 0);
        loop {
            let trouble = match self.finish_once().await {
                Ok((artifact, created)) => return Ok((artifact, created || (lost && fresh))),
                Err(Trouble::Final(error)) if error.is(ErrorCode::RegistryUploadState) => {
                    let upload = self.standing().await?;
                    if upload.state == UploadState::Open && upload.verifying_bytes.is_none() && !lost {
                        return Err(Setback::Failed(error));
                    }
                    Trouble::Passing { error, after: None }
                }
                Err(Trouble::Final(error)) => return Err(error.into()),
                Err(trouble) => trouble,
            };
            lost = true;
            patience.wait(trouble, &**self.progress).await?;
            let now = self.standing().await?.verifying_bytes.unwrap_or(0);
            if now > verified {
                patience.progressed();
            }
            verified = now;
        }
    }

    async fn finish_once(&self) -> Result<(Artifact, bool), Trouble> {
        let url = self.below(route::upload_finish);
        let mut answer = std::pin::pin!(self.server.request(Method::POST, url).send());
        let mut over = 0;
        let answer = loop {
            if let Ok(answer) = tokio::time::timeout(LOOK, &mut answer).await {
                break answer.map_err(|error| self.server.broken(&error))?;
            }
            let Ok(upload) = self.server.get::<Upload>(self.url.clone()).await else { continue };
            if let Some(bytes) = upload.verifying_bytes {
                self.progress.at(bytes);
            }
            over += u32::from(upload.state != UploadState::Open);
            if over >= PATIENT_LOOKS {
                return Err(self.server.silent());
            }
        };
        let answer = self.server.judge(answer).await?;
        let created = answer.status() == StatusCode::CREATED;
        Ok((self.server.json(answer).await?, created))
    }

    /// Gives the session up, so that its bytes do not wait for their expiry. Best effort.
    pub(super) async fn abort(&self) {
        let _ = self.server.ask(self.server.request(Method::DELETE, self.url.clone())).await;
    }
}

/// The stored bytes of a file; the optional index is listed only once some have arrived.
pub(super) fn offset(upload: &Upload, name: &str) -> u64 {
    upload.files.iter().find(|file| file.name == name).map_or(0, |file| file.offset)
}

fn over() -> Error {
    Error::unavailable("the upload session is over", "Push again; a new session is opened.")
}

fn number(answer: &Response, header: &str) -> Option<u64> {
    answer.headers().get(header)?.to_str().ok()?.parse().ok()
}
