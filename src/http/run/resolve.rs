//! `GET /v1/runs/{run}/resolve`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::Resolved;
use crate::http::extract::{Query, Segments, bad_parameter, run_name};
use crate::http::problem::Failure;
use crate::service::Registry;

/// What to resolve.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    locator: Option<String>,
    content_hash: Option<String>,
}

/// Resolve a locator
///
/// Finds the parameter group that a locator names: `artifact://CONSORTIUM/RUN/round-00012/encoder`, the old form
/// `artifact://round-00012/encoder` within this run, or a URL of this server. A `content_hash` beside it decides; when
/// the locator leads to another group than the hash, that is an error.
#[utoipa::path(
    get, path = route::RESOLVE, tag = "runs", operation_id = "resolve_locator",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("locator" = Option<String>, Query, description = "The locator"),
        ("content_hash" = Option<String>, Query, description = "H2 of the group, as in a ParamRef"),
    ),
    responses(
        (status = 200, description = "The group", body = Resolved),
        (status = 400, description = "The locator has none of the known forms", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "The run or the group is not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Locator and hash name two groups", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn resolve_locator(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(reference): Query<Reference>,
) -> Result<Json<Resolved>, Failure> {
    let hash = reference.content_hash.as_deref().map(str::parse).transpose();
    let hash =
        hash.map_err(|_| bad_parameter("content_hash", "content_hash must be 64 lowercase hexadecimal digits"))?;
    if reference.locator.is_none() && hash.is_none() {
        return Err(bad_parameter("locator", "a locator or a content_hash is needed").into());
    }
    Ok(Json(registry.resolve(&run_name(&run)?, reference.locator.as_deref(), hash).await?))
}
