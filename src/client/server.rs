//! The server as seen from here: where it is, how it is asked, and what its answers mean.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::de::DeserializeOwned;

use super::error::{Error, Kind};
use super::retry::{Trouble, retry_after};
use crate::api::problem::{self, Problem};
use crate::core::error::{DomainError, ErrorCode};

/// Where a server is when nobody says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8417";
/// How long a connection may stand still when nobody says otherwise.
pub const DEFAULT_IDLE: Duration = Duration::from_secs(30);

/// The longest JSON answer that is read into memory.
const LARGEST_ANSWER: usize = 64 << 20;
const NOT_RUNNING: &str =
    "Is the server running? Start it with `cairn serve`, or name another one with --server or $CAIRN_SERVER.";
const NOT_CAIRN: &str = "Check the address of the server and the proxies on the way to it.";

/// A server that can be asked.
pub struct Server {
    http: Client,
    base: Url,
    token: Option<HeaderValue>,
    idle: Duration,
    /// Whether it has answered at all; before that, waiting for it to come back makes no sense.
    answered: AtomicBool,
}

impl Server {
    /// Prepares to talk to the server at `url`; nothing is sent yet. No answer may stand still for longer than `idle`.
    ///
    /// # Errors
    /// A usage error for a URL or token that cannot be used.
    pub fn new(url: &str, token: Option<&str>, idle: Duration) -> Result<Self, Error> {
        const URL_REMEDY: &str = "Give an address such as http://127.0.0.1:8417.";
        let base = Url::parse(url.trim_end_matches('/'))
            .map_err(|error| Error::usage(format!("{url:?} is not a URL: {error}"), URL_REMEDY))?;
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() || base.fragment().is_some() {
            return Err(Error::usage("the server's URL is not a plain http or https address", URL_REMEDY));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(Error::usage("the server's URL carries credentials", "Use --token or $CAIRN_TOKEN."));
        }
        let token = token.filter(|token| !token.is_empty()).map(bearer).transpose()?;
        // Harmless when a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let local = base.host_str().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
        #[expect(clippy::disallowed_methods, reason = "this is the one place that builds a client")]
        let builder = Client::builder()
            .user_agent(concat!("cairn/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(idle.min(Duration::from_secs(10)))
            .redirect(redirect::Policy::custom(|attempt| match attempt.previous().last() {
                Some(from) if same_origin(from, attempt.url()) && attempt.previous().len() < 5 => attempt.follow(),
                _ => attempt.stop(),
            }));
        // A proxy that is configured for the world outside cannot know this machine's own ports.
        let http = if local { builder.no_proxy() } else { builder }
            .build()
            .map_err(|error| Error::unavailable(format!("cannot prepare connections: {}", chain(&error)), NOT_CAIRN))?;
        Ok(Self { http, base, token, idle, answered: AtomicBool::new(false) })
    }

    /// Where it is.
    #[must_use]
    pub const fn base(&self) -> &Url {
        &self.base
    }

    /// How long it may stand still.
    pub(super) const fn idle(&self) -> Duration {
        self.idle
    }

    /// The address of one of its routes.
    pub(super) fn url(&self, route: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{route}", self.base.path().trim_end_matches('/')));
        url
    }

    /// Where an answer's `Location` leads; it must not lead to another origin, which would get the token.
    pub(super) fn location(&self, answer: &Response) -> Result<Url, Error> {
        let text = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let text = text.ok_or_else(|| Error::unavailable("the server's answer has no usable Location", NOT_CAIRN))?;
        self.follow(answer.url(), text)
    }

    fn follow(&self, from: &Url, location: &str) -> Result<Url, Error> {
        let url = from
            .join(location)
            .map_err(|_| Error::unavailable("the server's Location is not an address", NOT_CAIRN))?;
        if same_origin(&self.base, &url) {
            return Ok(url);
        }
        Err(Error::unavailable(
            format!("the server's Location leads to another place: {}", url.origin().ascii_serialization()),
            "Use the server's public URL with --server, or ask its operator to correct that URL.",
        ))
    }

    /// A request with everything that all requests carry.
    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url).header(ACCEPT_ENCODING, "identity");
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    /// Sends a request without a large body and waits for the head of its answer.
    pub(super) async fn ask(&self, request: RequestBuilder) -> Result<Response, Trouble> {
        self.ask_within(self.idle, request).await
    }

    /// The same where the request has a body that may take its time.
    pub(super) async fn ask_within(&self, limit: Duration, request: RequestBuilder) -> Result<Response, Trouble> {
        let answer = self.send(limit, request).await?;
        self.judge(answer).await
    }

    /// The same for something that the client knows already and the server may hold back; `None` when it is unchanged.
    pub(super) async fn ask_changed(
        &self,
        limit: Duration,
        request: RequestBuilder,
    ) -> Result<Option<Response>, Trouble> {
        let answer = self.send(limit, request).await?;
        if answer.status() == StatusCode::NOT_MODIFIED {
            self.answered.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        self.judge(answer).await.map(Some)
    }

    async fn send(&self, limit: Duration, request: RequestBuilder) -> Result<Response, Trouble> {
        match tokio::time::timeout(limit, request.send()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(self.silent()),
        }
    }

    /// A POST of a small document; what the server made of it, and whether that is new.
    pub(super) async fn post<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<(T, bool), Trouble> {
        let answer = self.ask_within(self.idle * 4, request).await?;
        let created = answer.status() == StatusCode::CREATED;
        Ok((self.json(answer).await?, created))
    }

    /// A GET for a JSON document.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, Trouble> {
        let answer = self.ask(self.request(Method::GET, url)).await?;
        self.json(answer).await
    }

    /// The JSON document of an answer.
    pub(super) async fn json<T: DeserializeOwned>(&self, answer: Response) -> Result<T, Trouble> {
        let body = self.body(answer, LARGEST_ANSWER).await?;
        let read = serde_json::from_slice(&body);
        Ok(read.map_err(|_| Error::unavailable("the answer is not what a cairn server answers", NOT_CAIRN))?)
    }

    /// A whole body that is known to be small.
    pub(super) async fn body(&self, mut answer: Response, most: usize) -> Result<Vec<u8>, Trouble> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(&mut answer).await? {
            if body.len() + chunk.len() > most {
                return Err(Error::unavailable("the server's answer is too long", NOT_CAIRN).into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The next bytes of a body; `None` at its proper end.
    pub(super) async fn chunk(&self, answer: &mut Response) -> Result<Option<Bytes>, Trouble> {
        match tokio::time::timeout(self.idle, answer.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(self.silent()),
        }
    }

    /// Lets a success through and turns everything else into what it means.
    pub(super) async fn judge(&self, answer: Response) -> Result<Response, Trouble> {
        self.answered.store(true, Ordering::Relaxed);
        let status = answer.status();
        if status.is_success() {
            let encoded = answer.headers().get(CONTENT_ENCODING).is_some_and(|value| value != "identity");
            if encoded {
                return Err(Error::unavailable("something on the way re-encodes the bytes", NOT_CAIRN).into());
            }
            return Ok(answer);
        }
        if status.is_redirection() {
            let target = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("nowhere");
            let message = format!("the server answers {status} and points to {target}");
            return Err(Error::unavailable(message, "Name the server's final address with --server.").into());
        }
        let after = answer.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
        let problem = self.problem(answer).await;
        Err(classify(status, problem, after))
    }

    async fn problem(&self, answer: Response) -> Problem {
        let status = answer.status();
        let media = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if media.starts_with(problem::MEDIA_TYPE)
            && let Ok(body) = self.body(answer, 1 << 20).await
            && let Ok(problem) = serde_json::from_slice::<Problem>(&body)
        {
            return Problem { status: status.as_u16(), ..problem };
        }
        unexplained(status)
    }

    /// What a failed exchange means: no answer came, or not all of it.
    pub(super) fn broken(&self, error: &reqwest::Error) -> Trouble {
        let first = !self.answered.load(Ordering::Relaxed);
        let place = self.base.origin().ascii_serialization();
        if first && error.is_connect() {
            return Error::unavailable(format!("cannot reach {place}: {}", chain(error)), NOT_RUNNING).into();
        }
        let message = format!("the connection to {place} broke: {}", chain(error));
        Trouble::Passing {
            error: Error::unavailable(message, "Try again: it continues where it stopped."),
            after: None,
        }
    }

    /// What it means when nothing moved for too long.
    pub(super) fn silent(&self) -> Trouble {
        let message = format!(
            "{} did not move for {} seconds",
            self.base.origin().ascii_serialization(),
            self.idle.as_secs_f64()
        );
        Trouble::Passing {
            error: Error::unavailable(message, "Try again: it continues where it stopped."),
            after: None,
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| Error::usage("the token has characters that no token has", "Check --token or $CAIRN_TOKEN."))?;
    value.set_sensitive(true);
    Ok(value)
}

fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host_str() == b.host_str() && a.port_or_known_default() == b.port_or_known_default()
}

/// What an answer that is no success means for the next attempt.
fn classify(status: StatusCode, problem: Problem, after: Option<Duration>) -> Trouble {
    let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
    if problem.code == ErrorCode::CheckpointIntegrity.as_str() && status.is_server_error() {
        // The server has found its own copy damaged; asking again does not heal it.
        return Error::answered(Kind::Integrity, problem).into();
    }
    if passing {
        return Trouble::Passing { error: Error::answered(Kind::Unavailable, problem), after };
    }
    let kind = if status.is_client_error() { Kind::Refused } else { Kind::Unavailable };
    Error::answered(kind, problem).into()
}

/// A problem for an answer that explains nothing: it may come from a proxy.
fn unexplained(status: StatusCode) -> Problem {
    let code = match status.as_u16() {
        401 => ErrorCode::RegistryUnauthenticated,
        403 => ErrorCode::RegistryForbidden,
        404 | 410 => ErrorCode::RegistryNotFound,
        405 => ErrorCode::RegistryMethod,
        408 => ErrorCode::RegistryTimeout,
        412 => ErrorCode::RegistryPrecondition,
        413 => ErrorCode::RegistryTooLarge,
        415 => ErrorCode::RegistryUnsupportedMedia,
        416 => ErrorCode::RegistryRange,
        429 => ErrorCode::RegistryRateLimited,
        507 => ErrorCode::RegistryStorageFull,
        _ => ErrorCode::RegistryUnavailable,
    };
    let message = format!("the server, or a proxy in front of it, answered {status} without a reason");
    Problem::new(&DomainError::new(code, message), status.as_u16())
}

/// An error and its causes in one line; the outer ones alone say only "error sending request".
fn chain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        Server::new(url, None, DEFAULT_IDLE).unwrap()
    }

    #[test]
    fn only_plain_addresses_are_servers() {
        for url in ["", "127.0.0.1:8417", "ftp://host", "http://user:word@host", "http://host/?a=1", "unix:/socket"] {
            assert_eq!(Server::new(url, None, DEFAULT_IDLE).err().unwrap().kind(), Kind::Usage, "{url}");
        }
        assert_eq!(Server::new("http://host", Some("a\nb"), DEFAULT_IDLE).err().unwrap().kind(), Kind::Usage);
    }

    #[test]
    fn a_path_in_front_of_the_routes_is_kept() {
        assert_eq!(server("http://h:1/").url("/v1/uploads").as_str(), "http://h:1/v1/uploads");
        assert_eq!(server("https://h/cairn/").url("/v1/uploads").as_str(), "https://h/cairn/v1/uploads");
    }

    #[test]
    fn locations_are_followed_verbatim_but_not_to_another_origin() {
        let server = server("https://h:8443");
        let from = server.url("/v1/uploads");
        let follow = |location| server.follow(&from, location).map(|url| url.to_string());
        assert_eq!(follow("/v1/uploads/7?state=a%2Fb").unwrap(), "https://h:8443/v1/uploads/7?state=a%2Fb");
        assert_eq!(follow("https://h:8443/x").unwrap(), "https://h:8443/x");
        for elsewhere in ["http://h:8443/x", "https://h/x", "//other/x", "https://h:8443@other/x"] {
            assert!(follow(elsewhere).is_err(), "{elsewhere}");
        }
    }

    #[test]
    fn answers_without_a_problem_document_still_mean_something() {
        let of = |status| classify(status, unexplained(status), None);
        for status in [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS] {
            assert!(matches!(of(status), Trouble::Passing { .. }), "{status}");
        }
        let Trouble::Final(error) = of(StatusCode::PAYLOAD_TOO_LARGE) else { panic!("413 passes") };
        assert_eq!((error.kind(), error.problem().status), (Kind::Refused, 413));
        assert!(error.is(ErrorCode::RegistryTooLarge));
        let Trouble::Final(error) = of(StatusCode::INSUFFICIENT_STORAGE) else { panic!("507 passes") };
        assert_eq!(error.kind(), Kind::Unavailable);
    }

    #[test]
    fn damage_that_the_server_reports_is_a_verdict() {
        let problem = Problem::new(&DomainError::integrity("the stored copy is damaged"), 500);
        let trouble = classify(StatusCode::INTERNAL_SERVER_ERROR, problem, None);
        assert!(matches!(trouble, Trouble::Final(error) if error.is_verdict()));
    }
}
