//! `DELETE /v1/uploads/{id}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::Segments;
use crate::http::problem::Failure;
use crate::service::Registry;

/// Give up an upload session
///
/// Its bytes are dropped. Repeating it is harmless.
#[utoipa::path(
    delete, path = route::UPLOAD, tag = "uploads", operation_id = "abort_upload",
    params(("id" = String, Path, description = "The session")),
    responses(
        (status = 204, description = "Given up"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has become an artifact", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn abort_upload(
    State(registry): State<Arc<Registry>>,
    Segments(id): Segments<String>,
) -> Result<StatusCode, Failure> {
    registry.abort_upload(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
