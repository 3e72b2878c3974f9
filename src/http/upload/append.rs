//! `PATCH /v1/uploads/{id}/files/{file}`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::{Segments, bad_parameter, declared_length, media_type, number};
use crate::http::openapi::Binary;
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::upload::Append;

/// Send bytes of a file
///
/// The body is appended at `Upload-Offset`, which must be the number of bytes that are stored. A connection that
/// breaks loses nothing that has arrived. A newer writer takes over from an older one. Files may be sent in parallel
/// and in any order; in the order of `weight_files` is the fastest.
#[utoipa::path(
    patch, path = route::UPLOAD_FILE, tag = "uploads", operation_id = "append_upload_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("file" = String, Path, description = "A name in `weight_files`, or `weights.index.json`"),
        ("Upload-Offset" = u64, Header, description = "Where the body's first byte belongs"),
        ("Upload-Length" = Option<u64>, Header, description = "Bytes of the whole file"),
    ),
    request_body(content = inline(Binary), content_type = "application/partial-upload"),
    responses(
        (status = 204, description = "Durable", headers(("Upload-Offset" = u64, description = "The new length"))),
        (status = 404, description = "No such session, or its time is over", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body was cut short; what had arrived is kept", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Wrong offset, the session is over, or a newer writer has taken over", body = Problem, content_type = "application/problem+json",
            headers(("Upload-Offset" = u64, description = "Where to continue, after a wrong offset"))),
        (status = 413, description = "Larger than this server takes", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Another media type, or the bytes are not safetensors", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The bytes are refused; the file starts again at 0", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn append_upload_file(
    State(registry): State<Arc<Registry>>,
    Segments((id, file)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    media_type(&headers, &[route::PARTIAL_UPLOAD], true)?;
    let Some(offset) = number(&headers, route::UPLOAD_OFFSET)? else {
        return Err(bad_parameter(route::UPLOAD_OFFSET, "the Upload-Offset header is missing").into());
    };
    let length = number(&headers, route::UPLOAD_LENGTH)?;
    let limit = registry.options().limits.file_bytes;
    declared_length(&headers, limit)?;
    let append = Append { id: &id, file: &file, offset, length };
    let stored = registry.append(append, body.into_data_stream()).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(route::UPLOAD_OFFSET, stored.into());
    Ok(response)
}
