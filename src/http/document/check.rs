//! `POST /v1/ledgers/verify`, `/v1/proofs/verify` and `/v1/config-hash`: checked, not kept.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::{ConfigHashAnswer, LedgerVerdict, ProofVerdict};
use crate::http::extract::{Query, bad_parameter, declared_length, small_body};
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::check::LARGEST_LEDGER;
use crate::service::document::LARGEST;

/// Where the ledger is expected to end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    head: Option<String>,
}

/// Check a ledger
///
/// Reads a ledger file, JSON Lines, and tells whether every record follows the one before. Nothing in a ledger shows that
/// its end was cut off or rewritten; whoever has kept the hash of the last record gives it as `head`.
#[utoipa::path(
    post, path = route::LEDGER_VERIFY, tag = "documents", operation_id = "verify_ledger",
    params(("head" = Option<String>, Query, description = "Hash of the record that must be the last")),
    request_body(content = String, content_type = "application/jsonl"),
    responses(
        (status = 200, description = "Whether the chain holds", body = LedgerVerdict),
        (status = 413, description = "Larger than a ledger may be", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A line is not a record", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn verify_ledger(
    State(registry): State<Arc<Registry>>,
    Query(expected): Query<Expected>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<LedgerVerdict>, Failure> {
    declared_length(&headers, LARGEST_LEDGER)?;
    let head = expected.head.as_deref().map(str::parse).transpose();
    let head = head.map_err(|_| bad_parameter("head", "head must be 64 lowercase hexadecimal digits"))?;
    let body = small_body(body, LARGEST_LEDGER, registry.options().body_idle).await?;
    Ok(Json(registry.verify_ledger(body, head).await?))
}

/// Check a Merkle proof
///
/// Tells whether an episode is one of those that a data set's root stands for. Give the `episode` digest, or the `leaf`
/// together with the `episode_count` of the commitment.
#[utoipa::path(
    post, path = route::PROOF_VERIFY, tag = "documents", operation_id = "verify_proof",
    request_body(content = serde_json::Value, content_type = "application/json"),
    responses(
        (status = 200, description = "Whether the episode is under the root", body = ProofVerdict),
        (status = 422, description = "This is no proof", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn verify_proof(
    State(registry): State<Arc<Registry>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ProofVerdict>, Failure> {
    declared_length(&headers, LARGEST)?;
    let body = small_body(body, LARGEST, registry.options().body_idle).await?;
    Ok(Json(registry.verify_proof(&body).await?))
}

/// Hash a configuration
///
/// The hash that Lensemble's library computes, with Python's spelling of numbers.
#[utoipa::path(
    post, path = route::CONFIG_HASH, tag = "documents", operation_id = "hash_config",
    request_body(content = serde_json::Value, content_type = "application/json"),
    responses(
        (status = 200, description = "The hash", body = ConfigHashAnswer),
        (status = 400, description = "This is no configuration", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn hash_config(
    State(registry): State<Arc<Registry>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ConfigHashAnswer>, Failure> {
    declared_length(&headers, LARGEST)?;
    let body = small_body(body, LARGEST, registry.options().body_idle).await?;
    Ok(Json(registry.hash_config(body).await?))
}
