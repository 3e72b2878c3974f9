//! `POST` and `GET /v1/runs/{run}/participants/{participant}/commitments`, and `GET /v1/runs/{run}/commitments`

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::{Commitment, Commitments};
use crate::http::extract::{Query, Segments, bad_parameter, declared_length, media_type, run_name, small_body};
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::document::{Holding, LARGEST};

/// From which round on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    from_round: Option<String>,
}

/// Commit to a data set
///
/// The body is the DatasetCommitment, verbatim. It holds from `from_round` on, the open round when absent, until a later
/// one takes its place; rounds that are closed are never touched.
#[utoipa::path(
    post, path = route::PARTICIPANT_COMMITMENTS, tag = "documents", operation_id = "keep_commitment",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("participant" = String, Path, description = "The participant"),
        ("from_round" = Option<u64>, Query, description = "The first round it holds for"),
    ),
    request_body(content = serde_json::Value, content_type = "application/json", description = "A DatasetCommitment"),
    responses(
        (status = 201, description = "It holds", body = Commitment,
            headers(("Location" = String, description = "The document, relative to this server"))),
        (status = 200, description = "It held before", body = Commitment),
        (status = 404, description = "The run is not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Another one holds for this round, the round is closed, or the participant is not declared", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It does not follow its schema", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn keep_commitment(
    State(registry): State<Arc<Registry>>,
    Segments((run, participant)): Segments<(String, String)>,
    Query(from): Query<From>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    let run = run_name(&run)?;
    media_type(&headers, &["application/json", "application/octet-stream"], false)?;
    declared_length(&headers, LARGEST)?;
    let from_round = from.from_round.as_deref().map(str::parse).transpose();
    let from_round = from_round.map_err(|_| bad_parameter("from_round", "from_round must be a round's number"))?;
    let body = small_body(body, LARGEST, registry.options().body_idle).await?;
    let (commitment, created) =
        registry.keep_commitment(&run, Holding { participant, from_round }, body.into()).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let location = route::document(run.as_str(), "dataset-commitment", &commitment.digest);
    Ok((status, [(header::LOCATION, location)], Json(commitment)))
}

/// List what a participant has committed to
///
/// Each with the first round that it holds for; it holds until the next one.
#[utoipa::path(
    get, path = route::PARTICIPANT_COMMITMENTS, tag = "documents", operation_id = "list_commitments_of_participant",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("participant" = String, Path, description = "The participant"),
    ),
    responses(
        (status = 200, description = "The commitments", body = Commitments),
        (status = 404, description = "The run is not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_commitments_of_participant(
    State(registry): State<Arc<Registry>>,
    Segments((run, participant)): Segments<(String, String)>,
) -> Result<Json<Commitments>, Failure> {
    Ok(Json(registry.commitments(&run_name(&run)?, Some(&participant)).await?))
}

/// List what the participants have committed to
///
/// By participant, then by the first round that each holds for.
#[utoipa::path(
    get, path = route::COMMITMENTS, tag = "documents", operation_id = "list_commitments",
    params(("run" = String, Path, description = "The run's name")),
    responses(
        (status = 200, description = "The commitments", body = Commitments),
        (status = 404, description = "The run is not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_commitments(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
) -> Result<Json<Commitments>, Failure> {
    Ok(Json(registry.commitments(&run_name(&run)?, None).await?))
}
