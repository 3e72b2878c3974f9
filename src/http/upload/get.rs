//! `GET /v1/uploads/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::upload::Upload;
use crate::http::extract::Segments;
use crate::http::problem::Failure;
use crate::service::Registry;

/// Look at an upload session
///
/// How far each file has come, and until when the session can be continued.
#[utoipa::path(
    get, path = route::UPLOAD, tag = "uploads", operation_id = "get_upload",
    params(("id" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "The session", body = Upload),
        (status = 404, description = "No such session, or its time is over", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_upload(
    State(registry): State<Arc<Registry>>,
    Segments(id): Segments<String>,
) -> Result<impl IntoResponse, Failure> {
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(registry.upload(&id).await?)))
}
