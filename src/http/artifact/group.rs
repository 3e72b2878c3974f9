//! `GET /v1/artifacts/{content_hash}/groups/{group}.safetensors`

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

/// Fetch a parameter group
///
/// The group's tensors under bare names as a safetensors file: exactly the bytes whose SHA-256 is H2.
#[utoipa::path(
    get, path = route::GROUP, tag = "artifacts", operation_id = "get_group",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits"), ("group" = String, Path, description = "`encoder` or `predictor`")),
    responses(
        (status = 200, description = "The group", content_type = "application/octet-stream", body = inline(Binary),
            headers(("Repr-Digest" = String, description = "`sha-256=:…:`, the whole of it"))),
        (status = 206, description = "The wanted range of it"),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "The range lies outside", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged; push again to repair them", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_group(
    State(registry): State<Arc<Registry>>,
    Segments((content_hash, group)): Segments<(String, String)>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let name = group.strip_suffix(".safetensors").unwrap_or("");
    let fetched = registry.fetch_group(hash(&content_hash)?, name).await?;
    answer(&fetched, "application/octet-stream", &method, &headers, wire)
}
