//! `POST /v1/uploads`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::upload::Upload;
use crate::http::extract::{declared_length, media_type, small_body};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Open an upload session
///
/// The body is `header.json`, verbatim. The answer names the files that are expected.
#[utoipa::path(
    post, path = route::UPLOADS, tag = "uploads", operation_id = "create_upload",
    request_body(content = serde_json::Value, content_type = "application/json", description = "`header.json`"),
    responses(
        (status = 201, description = "Open", body = Upload,
            headers(("Location" = String, description = "The session, relative to this server"))),
        (status = 409, description = "The artifact is stored here with another header", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The header or what it describes is larger than this server takes", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not sent as JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The header is refused", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn create_upload(
    State(registry): State<Arc<Registry>>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    let options = registry.options();
    media_type(&headers, &["application/json", "application/octet-stream"], false)?;
    declared_length(&headers, options.limits.header_bytes)?;
    let header_text = small_body(body, options.limits.header_bytes, options.body_idle).await?;
    let upload = registry.open_upload(header_text).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, route::upload(&upload.id))], Json(upload)))
}
