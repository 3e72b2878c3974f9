//! The one way in which bytes become an answer: conditions, ranges, digests and the body itself.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::conn::{self, Segment, Wire};
use super::problem::Failure;
use crate::api::range::{Wanted, wanted};
use crate::api::route;
use crate::core::error::{DomainError, ErrorCode};
use crate::service::fetch::{Fetched, Part, etag};

/// Answers a GET or HEAD with what was fetched.
///
/// # Errors
/// 416 for a range outside the bytes.
pub fn answer(
    fetched: &Fetched,
    content_type: &'static str,
    method: &Method,
    request: &HeaderMap,
    wire: Option<Wire>,
) -> Result<Response, Failure> {
    let tag = etag(&fetched.tag);
    let mut response = Response::new(Body::empty());
    describe(&mut response, fetched, content_type, &tag)?;
    if request.get(header::IF_NONE_MATCH).is_some_and(|value| matches(value, &tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
        return Ok(response);
    }
    let (start, len) = match part(fetched.len, &tag, request) {
        Wanted::Unsatisfiable => {
            let error =
                DomainError::new(ErrorCode::RegistryRange, format!("the range lies outside of {} bytes", fetched.len));
            return Err(error.field("complete_length", fetched.len).into());
        }
        Wanted::Whole => (0, fetched.len),
        Wanted::Part { start, len } => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let range = format!("bytes {start}-{}/{}", start + len - 1, fetched.len);
            response.headers_mut().insert(header::CONTENT_RANGE, text(range)?);
            (start, len)
        }
    };
    response.headers_mut().insert(header::CONTENT_LENGTH, len.into());
    if method != Method::HEAD {
        let segments = fetched.parts(start, len).into_iter().map(segment).collect();
        *response.body_mut() = conn::body(wire, segments, Some(Box::new(fetched.last_check())));
    }
    Ok(response)
}

fn segment(part: Part) -> Segment {
    match part {
        Part::Bytes(bytes) => Segment::Bytes(bytes),
        Part::File { blob, start, len } => Segment::File { file: blob.file().clone(), offset: start, len },
    }
}

fn describe(response: &mut Response, fetched: &Fetched, content_type: &'static str, tag: &str) -> Result<(), Failure> {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::ETAG, text(tag.to_owned())?);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    // No browser shall take stored bytes for a page.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_DISPOSITION, text(disposition(&fetched.file_name))?);
    headers.insert(route::LINKED_SIZE, fetched.len.into());
    if let Some(digest) = fetched.digest {
        headers.insert("repr-digest", text(format!("sha-256=:{}:", STANDARD.encode(digest)))?);
    }
    if let Some((dtype, shape)) = &fetched.tensor {
        headers.insert(route::TENSOR_DTYPE, HeaderValue::from_static(dtype));
        headers.insert(route::TENSOR_SHAPE, text(serde_json::json!(shape).to_string())?);
    }
    Ok(())
}

fn text(value: String) -> Result<HeaderValue, Failure> {
    HeaderValue::try_from(value).map_err(|_| DomainError::new(ErrorCode::Internal, "a header cannot be written").into())
}

/// A name with anything but plain letters travels percent-encoded (RFC 6266).
fn disposition(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.bytes().all(plain) {
        return format!("attachment; filename=\"{name}\"");
    }
    let encoded: String = name
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename*=UTF-8''{encoded}")
}

/// `If-None-Match`: a star, or any of the listed tags, weak or strong.
fn matches(value: &HeaderValue, tag: &str) -> bool {
    lists(value.to_str().unwrap_or_default(), tag)
}

/// Whether a list of entity tags names this one, by the weak comparison that conditions of a GET use.
#[must_use]
pub fn lists(told: &str, tag: &str) -> bool {
    told.split(',').map(str::trim).any(|told| told == "*" || bare(told) == bare(tag))
}

/// A tag without the mark of a weak one.
fn bare(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// The wanted range; everything when `If-Range` names another representation.
fn part(len: u64, tag: &str, request: &HeaderMap) -> Wanted {
    let same = request.get(header::IF_RANGE).is_none_or(|told| told.as_bytes() == tag.as_bytes());
    match request.get(header::RANGE).and_then(|value| value.to_str().ok()) {
        Some(range) if same => wanted(range, len),
        _ => Wanted::Whole,
    }
}
