//! Parts of a request that have been checked before a handler sees them.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::header;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::conn::Wire;
use super::problem::Failure;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Object, explain};
use crate::core::run::Name;
use crate::service::ServiceError;

/// The segments of the path, each percent-decoded once.
pub struct Segments<T>(pub T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value))
            .map_err(|_| bad_parameter("path", "a segment of the path is not well-formed, or not UTF-8").into())
    }
}

/// The connection that a request came over, when it is one of ours.
pub struct Connection(pub Option<Wire>);

impl<S: Send + Sync> FromRequestParts<S> for Connection {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<Wire>().cloned()))
    }
}

/// 400 for a parameter that cannot be read.
#[must_use]
pub fn bad_parameter(key: &'static str, message: &str) -> DomainError {
    DomainError::new(ErrorCode::ConfigInvalid, message.to_owned()).field("key", key)
}

/// Reads a hash from the path.
///
/// # Errors
/// 404: what is not a hash names nothing here.
pub fn hash<T: std::str::FromStr>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| {
        let error =
            DomainError::new(ErrorCode::RegistryNotFound, "the path does not hold 64 lowercase hexadecimal digits");
        error.remedy("Write the hash as 64 lowercase hexadecimal digits, without a prefix.").into()
    })
}

/// Reads a header that holds a whole number.
///
/// # Errors
/// 400 when it is something else.
pub fn number(headers: &HeaderMap, name: &'static str) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match text.and_then(|text| text.parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(bad_parameter(name, "a header does not hold a whole number").into()),
    }
}

/// Checks the media type of a body; a missing one is fine where `required` is false.
///
/// # Errors
/// 415.
pub fn media_type(headers: &HeaderMap, accepted: &[&'static str], required: bool) -> Result<(), Failure> {
    let refuse = |message: String| {
        Err(DomainError::new(ErrorCode::RegistryUnsupportedMedia, message).field("accepted", accepted.to_vec()).into())
    };
    let plain = |value: &axum::http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get(header::CONTENT_ENCODING).is_some_and(|value| !plain(value)) {
        return refuse("a body with a content encoding is not taken".to_owned());
    }
    let told = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = told.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence {
        None if !required => Ok(()),
        Some(essence) if accepted.contains(&essence.as_str()) => Ok(()),
        _ => refuse(format!("the body must be sent as {}", accepted.join(" or "))),
    }
}

/// Refuses a declared length above `limit` before a byte of the body is read.
///
/// # Errors
/// 413.
pub fn declared_length(headers: &HeaderMap, limit: u64) -> Result<(), Failure> {
    match number(headers, "content-length")? {
        Some(length) if length > limit => {
            Err(DomainError::new(ErrorCode::RegistryTooLarge, "the body is larger than it may be")
                .field("limit", limit)
                .field("bytes", length)
                .into())
        }
        _ => Ok(()),
    }
}

/// Reads a small body, at most `limit` bytes, from a client that may be slow but not silent.
///
/// # Errors
/// 413 above the limit, 408 when it stands still or is cut short.
pub async fn small_body(body: Body, limit: u64, idle: Duration) -> Result<Bytes, Failure> {
    // Only room in the address space: pages come with the bytes, so an empty promise costs nothing.
    let room = axum::body::HttpBody::size_hint(&body).exact().unwrap_or(0).min(limit);
    let mut bytes = BytesMut::with_capacity(usize::try_from(room).unwrap_or(0));
    let mut stream = body.into_data_stream();
    loop {
        let frame = tokio::time::timeout(idle, stream.next()).await;
        let frame = frame.map_err(|_| ServiceError::Cut(format!("no byte arrived for {} seconds", idle.as_secs())))?;
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let frame = frame.map_err(|error| ServiceError::Cut(error.to_string()))?;
        if (bytes.len() + frame.len()) as u64 > limit {
            let error = DomainError::new(ErrorCode::RegistryTooLarge, "the body is larger than it may be");
            return Err(error.field("limit", limit).into());
        }
        bytes.extend_from_slice(&frame);
    }
}

/// Reads the name of a run from the path.
///
/// # Errors
/// 404: what is no name names nothing here.
pub fn run_name(text: &str) -> Result<Name, Failure> {
    text.parse().map_err(|_| ServiceError::not_found("a run of this name").into())
}

/// A place in a list and how much of it is wanted.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// How many entries.
    pub limit: Option<String>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Paging {
    /// How many entries are wanted; 100 when nothing is said.
    ///
    /// # Errors
    /// 400 for anything but 1 to 1000.
    pub fn entries(&self) -> Result<u32, Failure> {
        let Some(text) = &self.limit else { return Ok(100) };
        match text.parse() {
            Ok(limit @ 1..=1000) => Ok(limit),
            _ => Err(bad_parameter("limit", "limit must be a number from 1 to 1000").into()),
        }
    }
}

/// The parameters of a query, each known and given once.
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|axum::extract::Query(value)| Self(value)).map_err(|_| {
            bad_parameter("query", "a parameter of the query is unknown, repeated or not well-formed").into()
        })
    }
}

/// A value of a request header that is text.
///
/// # Errors
/// 400 when it is not.
pub fn text_header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Failure> {
    let value = headers.get(name).map(axum::http::HeaderValue::to_str).transpose();
    value.map_err(|_| bad_parameter(name, "a header holds something else than printable ASCII").into())
}

/// The headers of a page: where the next one is, on the request's own host.
#[must_use]
pub fn next_page(path: &str, limit: u32, cursor: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CACHE_CONTROL, axum::http::HeaderValue::from_static("no-cache"));
    if let Some(cursor) = cursor {
        let link = format!("<{path}?limit={limit}&cursor={cursor}>; rel=\"next\"");
        if let Ok(link) = axum::http::HeaderValue::try_from(link) {
            headers.insert(header::LINK, link);
        }
    }
    headers
}

/// Reads a small JSON object that must follow a schema.
///
/// # Errors
/// 400 when it does not.
pub fn small_json<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map(|Object(value)| value)
        .map_err(|error| bad_parameter("body", &format!("the body is not valid: {}", explain(&error))).into())
}
