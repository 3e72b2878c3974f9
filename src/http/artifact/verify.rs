//! `POST /v1/artifacts/{content_hash}/verify`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;

use crate::api::artifact::{VerifyAnswer, VerifyRequest};
use crate::api::problem::Problem;
use crate::api::route;
use crate::core::json::{Object, explain};
use crate::http::extract::{Segments, bad_parameter, hash, small_body};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Verify an artifact now
///
/// Reads every stored byte and recomputes H1, each H2 and each H4. A file that is damaged is served to nobody from
/// then on, until the artifact is pushed again.
#[utoipa::path(
    post, path = route::VERIFY, tag = "artifacts", operation_id = "verify_artifact",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits")),
    request_body(content = VerifyRequest, description = "May be empty"),
    responses(
        (status = 200, description = "Every hash is right", body = VerifyAnswer),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Another hash was expected", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn verify_artifact(
    State(registry): State<Arc<Registry>>,
    Segments(content_hash): Segments<String>,
    body: Body,
) -> Result<Json<VerifyAnswer>, Failure> {
    let body = small_body(body, 64 << 10, registry.options().body_idle).await?;
    let request = if body.is_empty() {
        VerifyRequest::default()
    } else {
        serde_json::from_slice(&body)
            .map(|Object(request)| request)
            .map_err(|error| bad_parameter("body", &format!("the body is not valid: {}", explain(&error))))?
    };
    Ok(Json(registry.verify_artifact(hash(&content_hash)?, request.expected_hash.as_deref()).await?))
}
