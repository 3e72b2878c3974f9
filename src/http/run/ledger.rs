//! `GET /v1/runs/{run}/ledger`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::bytes::lists;
use crate::http::extract::{Segments, run_name, text_header};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Fetch the ledger
///
/// One ContributionRecord a line, byte for byte what Lensemble's own reader opens. `ETag` is the hash of the last record.
#[utoipa::path(
    get, path = route::LEDGER, tag = "runs", operation_id = "get_ledger",
    params(("run" = String, Path, description = "The run's name")),
    responses(
        (status = 200, description = "The ledger", content_type = "application/jsonl", body = String),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_ledger(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (lines, tail) = registry.ledger(&run_name(&run)?).await?;
    let tag = format!("\"{}\"", tail.as_deref().unwrap_or("empty"));
    let known = text_header(&headers, "if-none-match")?.unwrap_or_default();
    if lists(known, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let describe = [
        (header::CONTENT_TYPE, "application/jsonl".to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::ETAG, tag),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"ledger.jsonl\"".to_owned()),
    ];
    Ok((describe, Body::from_stream(lines)).into_response())
}
