//! `POST /v1/uploads/{id}/finish`

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::api::artifact::Artifact;
use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::Segments;
use crate::http::problem::Failure;
use crate::http::stored::stored;
use crate::service::Registry;

/// Finish an upload session
///
/// Reads back what arrived out of order, compares every promise of the header, and makes the artifact visible. Goes on
/// when the connection breaks; repeating it is harmless. While files are missing the session stays open.
#[utoipa::path(
    post, path = route::UPLOAD_FINISH, tag = "uploads", operation_id = "finish_upload",
    params(("id" = String, Path, description = "The session")),
    responses(
        (status = 201, description = "Stored and visible", body = Artifact,
            headers(("Location" = String, description = "The artifact, relative to this server"))),
        (status = 200, description = "It was there already", body = Artifact,
            headers(("Location" = String, description = "The artifact, relative to this server"))),
        (status = 404, description = "No such session, or its time is over", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The session was given up, or the artifact is stored here with another header", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Files are missing, or the bytes are not what the header says", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn finish_upload(
    State(registry): State<Arc<Registry>>,
    Segments(id): Segments<String>,
) -> Result<Response, Failure> {
    Ok(stored(&registry.finish_upload(&id).await?))
}
