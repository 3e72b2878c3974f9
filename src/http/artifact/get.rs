//! `GET /v1/artifacts/{content_hash}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::artifact::Artifact;
use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::{Segments, hash};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Describe an artifact
///
/// Answers only for an artifact whose files are there and as they were verified.
#[utoipa::path(
    get, path = route::ARTIFACT, tag = "artifacts", operation_id = "get_artifact",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits")),
    responses(
        (status = 200, description = "The artifact", body = Artifact),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged; push again to repair them", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_artifact(
    State(registry): State<Arc<Registry>>,
    Segments(content_hash): Segments<String>,
) -> Result<impl IntoResponse, Failure> {
    let artifact = registry.sound_artifact(hash(&content_hash)?).await?;
    // What it is never changes, but when it was verified and which runs hold it do.
    Ok(([(header::CACHE_CONTROL, "no-cache")], Json(Artifact::clone(&artifact))))
}
