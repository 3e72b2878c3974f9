//! `GET /v1/runs/{run}/rounds` and `/rounds/{round_index}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::{Round, Rounds};
use crate::http::extract::{Paging, Query, Segments, next_page, run_name};
use crate::http::problem::Failure;
use crate::service::{Registry, ServiceError};

/// List rounds
///
/// Newest first.
#[utoipa::path(
    get, path = route::ROUNDS, tag = "runs", operation_id = "list_rounds",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("limit" = Option<u32>, Query, description = "1 to 1000, 100 when absent"),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page of rounds", body = Rounds,
            headers(("Link" = String, description = "The next page, if there is one"))),
        (status = 400, description = "A parameter cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_rounds(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(paging): Query<Paging>,
) -> Result<impl IntoResponse, Failure> {
    let limit = paging.entries()?;
    let name = run_name(&run)?;
    let rounds = registry.rounds(&name, paging.cursor.as_deref(), limit).await?;
    let path = route::of_run(name.as_str(), "rounds");
    Ok((next_page(&path, limit, rounds.next_cursor.as_deref()), Json(rounds)))
}

/// Describe a round
///
/// What was committed, with references to its weights and the hash of the ledger record that entered with it.
#[utoipa::path(
    get, path = route::ROUND, tag = "runs", operation_id = "get_round",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("round_index" = u64, Path, description = "The round"),
    ),
    responses(
        (status = 200, description = "The round", body = Round),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_round(
    State(registry): State<Arc<Registry>>,
    Segments((run, round)): Segments<(String, String)>,
) -> Result<Json<Round>, Failure> {
    let plain = !round.is_empty() && round.bytes().all(|byte| byte.is_ascii_digit());
    let index = round.parse().ok().filter(|_| plain);
    let index = index.ok_or_else(|| ServiceError::not_found("this round of the run"))?;
    Ok(Json(registry.round(&run_name(&run)?, index).await?))
}
