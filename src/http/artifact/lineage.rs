//! `GET /v1/artifacts/{content_hash}/lineage`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::api::artifact::Lineage;
use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::{Segments, hash};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Follow the parents of an artifact
///
/// From the artifact towards round 0, as far as the chain is stored here, and the artifacts that descend from it.
#[utoipa::path(
    get, path = route::LINEAGE, tag = "artifacts", operation_id = "get_lineage",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits")),
    responses(
        (status = 200, description = "Ancestors and children", body = Lineage),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_lineage(
    State(registry): State<Arc<Registry>>,
    Segments(content_hash): Segments<String>,
) -> Result<Json<Lineage>, Failure> {
    Ok(Json(registry.lineage(hash(&content_hash)?).await?))
}
