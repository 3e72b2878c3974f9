//! `POST /v1/runs/{run}/commits`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::{NewCommit, Round};
use crate::http::extract::{Segments, declared_length, media_type, run_name, small_body, small_json, text_header};
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::document::LARGEST;

/// Commit a round
///
/// Makes a stored checkpoint, or the one in an upload session, the next round of the run, with the ContributionRecord of
/// the round before: all of it or nothing. The head moves only from the parent that the checkpoint names, so of several
/// coordinators one wins and the others are told the head. Repeating a commit is harmless, with or without an
/// `Idempotency-Key`.
#[utoipa::path(
    post, path = route::COMMITS, tag = "runs", operation_id = "commit_round",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters; the same key means the same commit"),
    ),
    request_body(content = NewCommit, content_type = "application/json"),
    responses(
        (status = 201, description = "Committed", body = Round,
            headers(("Location" = String, description = "The round, relative to this server"))),
        (status = 200, description = "Committed before", body = Round),
        (status = 400, description = "The body cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "The run or the checkpoint is not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It does not follow the head, or contradicts the run; the head is in the fields", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The record is not well-formed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn commit_round(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    let run = run_name(&run)?;
    media_type(&headers, &["application/json"], false)?;
    declared_length(&headers, LARGEST)?;
    let key = text_header(&headers, "idempotency-key")?;
    let body = small_body(body, LARGEST, registry.options().body_idle).await?;
    let commit: NewCommit = small_json(&body)?;
    if let Some(upload) = &commit.upload {
        registry.finish_upload(upload).await?;
    }
    let (round, created) = registry.commit(&run, commit, key).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(header::LOCATION, route::round(&round.run, round.round_index))], Json(round)))
}
