//! `POST /v1/runs/{run}/documents/{kind}`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::Document;
use crate::core::document::kind::{PUBLIC_PROBE, same_name};
use crate::http::extract::{Segments, declared_length, media_type, run_name, small_body};
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::document::LARGEST;

/// Keep a document
///
/// The bytes are kept as they are: JSON, or a safetensors file where the kind is `public-probe`. What does not follow the schema of its kind, contradicts the run's pins, or holds
/// what must not leave its owner is refused.
#[utoipa::path(
    post, path = route::DOCUMENTS_OF_KIND, tag = "documents", operation_id = "keep_document",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("kind" = String, Path, description = "`run-manifest`, `eval-report`, …"),
    ),
    request_body(content = serde_json::Value, content_type = "application/json"),
    responses(
        (status = 201, description = "Kept", body = Document,
            headers(("Location" = String, description = "The document, relative to this server"))),
        (status = 200, description = "Kept before", body = Document),
        (status = 404, description = "The run is not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It contradicts the run", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than a document may be", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not sent as JSON", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It does not follow its schema, or holds what must not leave its owner", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn keep_document(
    State(registry): State<Arc<Registry>>,
    Segments((run, kind)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    let run = run_name(&run)?;
    media_type(&headers, &["application/json", "application/octet-stream"], false)?;
    let (document, created) = if same_name(&kind, PUBLIC_PROBE) {
        declared_length(&headers, registry.options().limits.file_bytes)?;
        registry.keep_probe(&run, body.into_data_stream()).await?
    } else {
        declared_length(&headers, LARGEST)?;
        let body = small_body(body, LARGEST, registry.options().body_idle).await?;
        registry.keep_document(&run, &kind, body.into()).await?
    };
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(header::LOCATION, document.url.clone())], Json(document)))
}
