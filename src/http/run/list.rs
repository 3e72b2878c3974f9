//! `GET /v1/runs`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::Runs;
use crate::http::extract::{Paging, Query, next_page};
use crate::http::problem::Failure;
use crate::service::Registry;

/// List runs
///
/// Newest first.
#[utoipa::path(
    get, path = route::RUNS, tag = "runs", operation_id = "list_runs",
    params(
        ("limit" = Option<u32>, Query, description = "1 to 1000, 100 when absent"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page of runs", body = Runs,
            headers(("Link" = String, description = "The next page, if there is one"))),
        (status = 400, description = "A parameter cannot be read", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_runs(
    State(registry): State<Arc<Registry>>,
    Query(paging): Query<Paging>,
) -> Result<impl IntoResponse, Failure> {
    let limit = paging.entries()?;
    let runs = registry.runs(paging.cursor.as_deref(), limit).await?;
    Ok((next_page(route::RUNS, limit, runs.next_cursor.as_deref()), Json(runs)))
}
