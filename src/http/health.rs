//! `GET /healthz`, `/readyz` and `/metrics`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::problem::Problem;
use crate::api::route;
use crate::core::error::{DomainError, ErrorCode};
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::metrics::MEDIA_TYPE;

/// Alive
///
/// Answers as long as the process does.
#[utoipa::path(get, path = route::HEALTHZ, tag = "operation", operation_id = "get_health",
    responses((status = 200, description = "Alive")))]
pub async fn get_health() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], Json(json!({"status": "alive", "version": env!("CARGO_PKG_VERSION")})))
}

/// Ready
///
/// Answers 200 when the database and the store do.
#[utoipa::path(get, path = route::READYZ, tag = "operation", operation_id = "get_ready",
    responses((status = 200, description = "Ready"), (status = 503, description = "Not ready", body = Problem, content_type = "application/problem+json")))]
pub async fn get_ready(State(registry): State<Arc<Registry>>) -> Response {
    match registry.ready().await {
        Ok(()) => ([(header::CACHE_CONTROL, "no-store")], Json(json!({"status": "ready"}))).into_response(),
        Err(error) => {
            tracing::error!(?error, "not ready");
            let error = DomainError::new(ErrorCode::RegistryUnavailable, "the database or the store does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, Failure::from(error)).into_response()
        }
    }
}

/// Figures
///
/// What has happened since the start and what is stored now, in the text form of `OpenMetrics`.
#[expect(clippy::missing_errors_doc, reason = "the comment is the OpenAPI text, which lists the refusals")]
#[utoipa::path(get, path = route::METRICS, tag = "operation", operation_id = "get_metrics",
    responses((status = 200, description = "The figures", content_type = "application/openmetrics-text", body = String)))]
pub async fn get_metrics(State(registry): State<Arc<Registry>>) -> Result<impl IntoResponse, Failure> {
    let text = registry.metrics_text().await?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")], text))
}
