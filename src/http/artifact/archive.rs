//! `GET /v1/artifacts/{content_hash}/archive.tar`

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

/// Fetch the whole directory
///
/// A tar with `header.json` and every stored file, as `PUT` takes it.
#[utoipa::path(
    get, path = route::ARCHIVE, tag = "artifacts", operation_id = "get_archive",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits")),
    responses(
        (status = 200, description = "The archive", content_type = "application/x-tar", body = inline(Binary)),
        (status = 206, description = "The wanted range of it"),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "The range lies outside", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged; push again to repair them", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_archive(
    State(registry): State<Arc<Registry>>,
    Segments(content_hash): Segments<String>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let fetched = registry.fetch_archive(hash(&content_hash)?).await?;
    answer(&fetched, "application/x-tar", &method, &headers, wire)
}
