//! `POST /v1/runs`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::{NewRun, Run};
use crate::http::extract::{declared_length, media_type, small_body};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Bytes of a registration: 4,096 participants with long names.
const LARGEST: u64 = 4 << 20;

/// Register a run
///
/// The pins never change: sending the same again is 200, other pins under the same name are refused.
#[utoipa::path(
    post, path = route::RUNS, tag = "runs", operation_id = "create_run",
    request_body(content = NewRun, content_type = "application/json"),
    responses(
        (status = 201, description = "Registered", body = Run,
            headers(("Location" = String, description = "The run, relative to this server"))),
        (status = 200, description = "Registered before, with the same pins", body = Run),
        (status = 400, description = "A pin cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Registered before, with other pins", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not sent as JSON", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn create_run(
    State(registry): State<Arc<Registry>>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    media_type(&headers, &["application/json"], false)?;
    declared_length(&headers, LARGEST)?;
    let body = small_body(body, LARGEST, registry.options().body_idle).await?;
    let (run, created) = registry.create_run(&body).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(header::LOCATION, route::run(&run.run))], Json(run)))
}
