//! `GET /v1/artifacts/{content_hash}/files/{file}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::bytes::answer;
use crate::http::extract::{Connection, Segments, hash};
use crate::http::openapi::Binary;
use crate::http::problem::Failure;
use crate::service::Registry;

/// Fetch a stored file
///
/// Weights are sent as they were received; `ETag` and `Repr-Digest` are their H4.
#[utoipa::path(
    get, path = route::FILE, tag = "artifacts", operation_id = "get_file",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits"), ("file" = String, Path, description = "A name in `files`")),
    responses(
        (status = 200, description = "The file", content_type = "application/octet-stream", body = inline(Binary),
            headers(("Repr-Digest" = String, description = "`sha-256=:…:`, the whole of it"))),
        (status = 206, description = "The wanted range of it"),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "The range lies outside", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged; push again to repair them", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_file(
    State(registry): State<Arc<Registry>>,
    Segments((content_hash, file)): Segments<(String, String)>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let fetched = registry.fetch_file(hash(&content_hash)?, &file).await?;
    answer(&fetched, "application/octet-stream", &method, &headers, wire)
}
