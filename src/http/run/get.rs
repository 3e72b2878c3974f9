//! `GET /v1/runs/{run}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::Run;
use crate::http::extract::{Segments, run_name};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Describe a run
///
/// Its pins, which never change, and where it stands.
#[utoipa::path(
    get, path = route::RUN, tag = "runs", operation_id = "get_run",
    params(("run" = String, Path, description = "The run's name")),
    responses(
        (status = 200, description = "The run", body = Run),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_run(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
) -> Result<impl IntoResponse, Failure> {
    let run = registry.run(&run_name(&run)?).await?;
    Ok(([(header::CACHE_CONTROL, "no-cache")], Json(run)))
}
