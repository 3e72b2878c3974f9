//! `GET /v1/runs/{run}/documents`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::Documents;
use crate::http::extract::{Paging, Query, Segments, next_page, run_name};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Which documents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    kind: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// List documents
///
/// Newest first.
#[utoipa::path(
    get, path = route::DOCUMENTS, tag = "documents", operation_id = "list_documents",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("kind" = Option<String>, Query, description = "Only this kind"),
        ("limit" = Option<u32>, Query, description = "1 to 1000, 100 when absent"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page of documents", body = Documents,
            headers(("Link" = String, description = "The next page, if there is one"))),
        (status = 400, description = "A parameter cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_documents(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(wanted): Query<Wanted>,
) -> Result<impl IntoResponse, Failure> {
    let Wanted { kind, limit, cursor } = wanted;
    page(&registry, &run, kind.as_deref(), &Paging { limit, cursor }).await
}

/// List documents of a kind
///
/// Newest first.
#[utoipa::path(
    get, path = route::DOCUMENTS_OF_KIND, tag = "documents", operation_id = "list_documents_of_kind",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("kind" = String, Path, description = "The kind"),
        ("limit" = Option<u32>, Query, description = "1 to 1000, 100 when absent"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page of documents", body = Documents,
            headers(("Link" = String, description = "The next page, if there is one"))),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_documents_of_kind(
    State(registry): State<Arc<Registry>>,
    Segments((run, kind)): Segments<(String, String)>,
    Query(paging): Query<Paging>,
) -> Result<impl IntoResponse, Failure> {
    page(&registry, &run, Some(&kind), &paging).await
}

async fn page(
    registry: &Registry,
    run: &str,
    kind: Option<&str>,
    paging: &Paging,
) -> Result<impl IntoResponse + use<>, Failure> {
    let limit = paging.entries()?;
    let name = run_name(run)?;
    let documents = registry.documents(&name, kind, paging.cursor.as_deref(), limit).await?;
    let part = kind.map_or_else(|| "documents".to_owned(), |kind| format!("documents/{kind}"));
    let path = route::of_run(name.as_str(), &part);
    Ok((next_page(&path, limit, documents.next_cursor.as_deref()), Json(documents)))
}
