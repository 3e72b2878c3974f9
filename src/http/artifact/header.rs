//! `GET /v1/artifacts/{content_hash}/header.json`

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::bytes::answer;
use crate::http::extract::{Connection, Segments, hash};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Fetch a header
///
/// The bytes of `header.json` as they were received.
#[utoipa::path(
    get, path = route::HEADER, tag = "artifacts", operation_id = "get_header",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits")),
    responses(
        (status = 200, description = "The header", content_type = "application/json", body = serde_json::Value,
            headers(("Repr-Digest" = String, description = "`sha-256=:…:`, the whole of it"))),
        (status = 206, description = "The wanted range of it"),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "The range lies outside", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged; push again to repair them", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_header(
    State(registry): State<Arc<Registry>>,
    Segments(content_hash): Segments<String>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let fetched = registry.fetch_header(hash(&content_hash)?).await?;
    answer(&fetched, "application/json", &method, &headers, wire)
}
