//! A polite client: requests as users make them, answers taken apart.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

use super::checkpoint::Checkpoint;

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// A server's address and a client to talk to it.
#[derive(Clone, Debug)]
pub struct Api {
    pub base: String,
    pub http: reqwest::Client,
}

static HTTP: LazyLock<()> = LazyLock::new(|| {
    // No request here is encrypted, but the client wants to be able to.
    let _ = rustls::crypto::ring::default_provider().install_default();
});

impl Api {
    pub fn new(base: impl Into<String>) -> Self {
        LazyLock::force(&HTTP);
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { base: base.into(), http }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await
    }

    pub async fn head(&self, path: &str) -> Answer {
        send(self.request(Method::HEAD, path)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        send(self.request(Method::DELETE, path)).await
    }

    /// A GET with one more header.
    pub async fn get_with(&self, path: &str, name: &'static str, value: &str) -> Answer {
        send(self.request(Method::GET, path).header(name, value)).await
    }

    pub async fn put(&self, hash: &str, tar: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::PUT, &format!("/v1/artifacts/{hash}"));
        send(request.header(CONTENT_TYPE, "application/x-tar").body(tar)).await
    }

    /// Pushes in one request.
    pub async fn push(&self, checkpoint: &Checkpoint) -> Answer {
        self.put(&checkpoint.content_hash, checkpoint.tar()).await
    }

    /// Pushes what must be accepted as new.
    pub async fn store(&self, checkpoint: &Checkpoint) {
        self.push(checkpoint).await.expect(StatusCode::CREATED);
    }

    pub async fn open(&self, header: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::POST, "/v1/uploads").header(CONTENT_TYPE, "application/json");
        send(request.body(header)).await
    }

    /// Opens a session that must be accepted, and gives its path.
    pub async fn session(&self, header: &[u8]) -> String {
        let answer = self.open(header.to_vec()).await.expect(StatusCode::CREATED);
        let location = answer.header("location").to_owned();
        assert_eq!(location, format!("/v1/uploads/{}", answer.json()["id"].as_str().unwrap()));
        location
    }

    pub async fn patch(&self, session: &str, file: &str, offset: u64, bytes: impl Into<reqwest::Body>) -> Answer {
        send(self.patch_request(session, file, offset).body(bytes)).await
    }

    pub fn patch_request(&self, session: &str, file: &str, offset: u64) -> RequestBuilder {
        self.request(Method::PATCH, &format!("{session}/files/{file}"))
            .header("upload-offset", offset)
            .header(CONTENT_TYPE, "application/partial-upload")
    }

    /// A PATCH that must be taken, up to `end`.
    pub async fn append(&self, session: &str, file: &str, bytes: &[u8], from: usize, end: usize) {
        let answer = self.patch(session, file, from as u64, bytes[from..end].to_vec()).await;
        let answer = answer.expect(StatusCode::NO_CONTENT);
        assert_eq!(answer.header("upload-offset"), end.to_string(), "{session} {file}");
    }

    /// Where a file of a session stands.
    pub async fn offset(&self, session: &str, file: &str) -> u64 {
        let answer = self.head(&format!("{session}/files/{file}")).await.expect(StatusCode::OK);
        answer.header("upload-offset").parse().unwrap()
    }

    pub async fn finish(&self, session: &str) -> Answer {
        send(self.request(Method::POST, &format!("{session}/finish"))).await
    }

    pub async fn verify(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        send(self.request(Method::POST, &format!("{path}/verify")).body(body)).await
    }

    /// Pushes by a session that must be accepted, one PATCH for each file.
    pub async fn store_by_session(&self, checkpoint: &Checkpoint) -> Answer {
        let session = self.session(&checkpoint.header).await;
        for (name, data) in &checkpoint.files {
            self.append(&session, name, data, 0, data.len()).await;
        }
        self.finish(&session).await
    }

    /// As above, but the answer to the first PATCH is the one that counts.
    pub async fn store_by_session_until_refused(&self, checkpoint: &Checkpoint) -> Answer {
        let session = self.session(&checkpoint.header).await;
        let (name, data) = &checkpoint.files[0];
        let answer = self.patch(&session, name, 0, data.clone()).await;
        self.delete(&session).await;
        answer
    }

    /// Reads everything of a stored checkpoint and compares every byte and every hash with what it must be.
    pub async fn check(&self, checkpoint: &Checkpoint) {
        let path = checkpoint.path();
        let artifact = self.get(&path).await.expect(StatusCode::OK).json();
        assert_eq!(artifact["content_hash"], checkpoint.content_hash.as_str());
        let header = self.get(&format!("{path}/header.json")).await.expect(StatusCode::OK);
        assert!(header.body == checkpoint.header, "header.json of {path}");
        let told: BTreeMap<_, _> = hashes(&artifact["files"], "blob_hash");
        assert_eq!(told.len(), checkpoint.files.len());
        for (name, data) in &checkpoint.files {
            let file = self.get(&format!("{path}/files/{name}")).await.expect(StatusCode::OK);
            assert!(file.body == *data, "{name} of {path}");
            assert_eq!(told[name], super::checkpoint::sha256(data), "H4 of {name}");
        }
        let told = hashes(&artifact["groups"], "group_hash");
        assert_eq!(told.len(), checkpoint.groups.len());
        for (name, data) in &checkpoint.groups {
            let group = self.get(&format!("{path}/groups/{name}.safetensors")).await.expect(StatusCode::OK);
            assert!(group.body == *data, "group {name} of {path}");
            assert_eq!(told[name], super::checkpoint::sha256(data), "H2 of {name}");
            let group = self.get(&format!("/v1/params/{}", told[name])).await.expect(StatusCode::OK);
            assert!(group.body == *data, "parameters {name} of {path}");
        }
    }
}

fn hashes(list: &Value, field: &str) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|item| (text(&item["name"]), text(&item[field]))).collect()
}

/// Sends a request and reads the answer whole.
///
/// # Panics
/// When there is no answer, or it breaks off.
pub async fn send(request: RequestBuilder) -> Answer {
    try_send(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
}

pub async fn try_send(request: RequestBuilder) -> reqwest::Result<Answer> {
    let response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    Ok(Answer { status, headers, body: response.bytes().await?.to_vec() })
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).to_str().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON: {error} in {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn expect(self, status: StatusCode) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        assert!(self.headers.contains_key("x-request-id"), "an answer without X-Request-Id");
        self
    }

    /// The problem document of a refusal, after checking its form.
    #[track_caller]
    pub fn problem(&self) -> Value {
        assert!(self.status.is_client_error() || self.status.is_server_error(), "{} {}", self.status, self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        let problem = self.json();
        for field in ["type", "title", "code", "class", "message", "remediation", "request_id"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field} is missing in {problem}");
        }
        assert_eq!(problem["status"], self.status.as_u16(), "{problem}");
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{problem}");
        assert!(problem["fields"].is_object(), "{problem}");
        assert_eq!(problem["type"], format!("/docs/errors#{}", problem["code"].as_str().unwrap()));
        problem
    }

    /// Checks that this is a refusal with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let problem = self.problem();
        assert_eq!((self.status.as_u16(), problem["code"].as_str().unwrap()), (status, code), "{problem}");
        problem
    }
}
