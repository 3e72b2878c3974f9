//! `GET /v1/runs/{run}/documents/{kind}/{digest}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::core::document::kind::{PUBLIC_PROBE, same_name};
use crate::core::error::{DomainError, ErrorCode};
use crate::http::bytes::answer;
use crate::http::extract::{Connection, Query, Segments, hash, run_name};
use crate::http::problem::Failure;
use crate::service::{Registry, ServiceError};

/// Which view.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    view: Option<String>,
}

/// Fetch a document
///
/// The bytes as they came. `?view=latest` gives the document in the newest schema version of its kind instead.
#[utoipa::path(
    get, path = route::DOCUMENT, tag = "documents", operation_id = "get_document",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("kind" = String, Path, description = "The kind"),
        ("digest" = String, Path, description = "SHA-256 of its bytes, 64 lowercase hexadecimal digits"),
        ("view" = Option<String>, Query, description = "`original` (as it came) or `latest`"),
    ),
    responses(
        (status = 200, description = "The document", content_type = "application/json", body = serde_json::Value,
            headers(("Repr-Digest" = String, description = "`sha-256=:…:`, the whole of it"))),
        (status = 206, description = "The wanted range of it"),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "There is no such view", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "The range lies outside", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_document(
    State(registry): State<Arc<Registry>>,
    Segments((run, kind, digest)): Segments<(String, String, String)>,
    Query(view): Query<View>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (run, digest) = (run_name(&run)?, hash(&digest)?);
    let fetched = match view.view.as_deref() {
        None | Some("original") => registry.fetch_document(&run, &kind, digest).await?,
        Some("latest") => registry.fetch_latest_view(&run, &kind, digest).await?,
        Some(_) => {
            let error = DomainError::new(ErrorCode::SchemaVersionMismatch, "documents have no view of this name")
                .field("known", vec!["original", "latest"])
                .remedy("Ask for the view `original` or `latest`.");
            return Err(ServiceError::NoSuchView(error).into());
        }
    };
    let media = if same_name(&kind, PUBLIC_PROBE) { "application/octet-stream" } else { "application/json" };
    answer(&fetched, media, &method, &headers, wire)
}
