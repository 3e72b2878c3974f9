//! `GET /v1/runs/{run}/ledger`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::{Segments, run_name};
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
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_ledger(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
) -> Result<Response, Failure> {
    let (lines, tail) = registry.ledger(&run_name(&run)?).await?;
    let describe = [
        (header::CONTENT_TYPE, "application/jsonl".to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::ETAG, format!("\"{}\"", tail.as_deref().unwrap_or("empty"))),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"ledger.jsonl\"".to_owned()),
    ];
    Ok((describe, Body::from_stream(lines)).into_response())
}
