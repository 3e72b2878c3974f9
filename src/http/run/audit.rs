//! `GET /v1/runs/{run}/audit`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;

use crate::api::audit::Audit;
use crate::api::problem::Problem;
use crate::api::route;
use crate::core::audit::Tier;
use crate::http::extract::{Query, Segments, bad_parameter, run_name};
use crate::http::problem::Failure;
use crate::service::Registry;

/// How much is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    tier: Option<String>,
}

/// Audit a run
///
/// Walks the run and holds rows, ledger, documents, news and files against each other: `quick` sees that every file is
/// there, `full` also compares sizes, `deep` hashes every stored byte again. What is wrong is in the findings; the status
/// is 200 all the same. This is what the server says of itself: `cairn audit` computes it from what it downloads.
#[utoipa::path(
    get, path = route::AUDIT, tag = "runs", operation_id = "audit_run",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("tier" = Option<String>, Query, description = "`quick` (when absent), `full` or `deep`"),
    ),
    responses(
        (status = 200, description = "The report", body = Audit),
        (status = 400, description = "There is no such tier", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn audit_run(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(depth): Query<Depth>,
) -> Result<impl IntoResponse, Failure> {
    let tier = match depth.tier.as_deref() {
        None => Tier::Quick,
        Some(text) => Tier::parse(text).ok_or_else(|| bad_parameter("tier", "tier is none of quick, full, deep"))?,
    };
    let audit = registry.audit(&run_name(&run)?, tier).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(audit)))
}
