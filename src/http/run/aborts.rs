//! `POST` and `GET /v1/runs/{run}/aborts`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::{Abort, Aborts, NewAbort};
use crate::http::extract::{
    Paging, Query, Segments, media_type, next_page, run_name, small_body, small_json, text_header,
};
use crate::http::problem::Failure;
use crate::service::Registry;

/// Abort a round
///
/// Gives up the training of round t, the head's. The head and its number stay, so the same round is tried again; open
/// upload sessions for the round after it are dropped.
#[utoipa::path(
    post, path = route::ABORTS, tag = "runs", operation_id = "abort_round",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters; the same key means the same abort"),
    ),
    request_body(content = NewAbort, content_type = "application/json"),
    responses(
        (status = 201, description = "Aborted", body = Abort),
        (status = 400, description = "The body cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "This round is not open; the head is in the fields", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn abort_round(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    let run = run_name(&run)?;
    media_type(&headers, &["application/json"], false)?;
    let key = text_header(&headers, "idempotency-key")?;
    let body = small_body(body, 64 << 10, registry.options().body_idle).await?;
    let abort: NewAbort = small_json(&body)?;
    Ok((StatusCode::CREATED, Json(registry.abort(&run, abort, key).await?)))
}

/// List aborts
///
/// The newest thousand, newest first.
#[utoipa::path(
    get, path = route::ABORTS, tag = "runs", operation_id = "list_aborts",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("limit" = Option<u32>, Query, description = "1 to 1000, 100 when absent"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page of aborts", body = Aborts,
            headers(("Link" = String, description = "The next page, if there is one"))),
        (status = 400, description = "A parameter cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_aborts(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(paging): Query<Paging>,
) -> Result<impl IntoResponse, Failure> {
    let limit = paging.entries()?;
    let name = run_name(&run)?;
    let aborts = registry.aborts(&name, paging.cursor.as_deref(), limit).await?;
    let path = route::of_run(name.as_str(), "aborts");
    Ok((next_page(&path, limit, aborts.next_cursor.as_deref()), Json(aborts)))
}
