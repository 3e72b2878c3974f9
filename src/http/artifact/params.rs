//! `GET /v1/params/{group_hash}`

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

/// Fetch a parameter group by its hash
///
/// Resolves a ParamRef: the bytes whose SHA-256 is this hash, from whichever artifact holds them.
#[utoipa::path(
    get, path = route::PARAMS, tag = "artifacts", operation_id = "get_params",
    params(("group_hash" = String, Path, description = "H2, what ParamRef.content_hash is")),
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
pub async fn get_params(
    State(registry): State<Arc<Registry>>,
    Segments(group_hash): Segments<String>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let fetched = registry.fetch_params(hash(&group_hash)?).await?;
    answer(&fetched, "application/octet-stream", &method, &headers, wire)
}
