//! `PUT /v1/artifacts/{content_hash}`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::api::artifact::Artifact;
use crate::api::problem::Problem;
use crate::api::route;
use crate::http::extract::{Segments, declared_length, hash, media_type};
use crate::http::openapi::Binary;
use crate::http::problem::Failure;
use crate::http::stored::stored;
use crate::service::Registry;

/// Push an artifact in one request
///
/// The body is the artifact's directory as an uncompressed tar (ustar or pax): `header.json` first, then the weight
/// files, regular files only. The hash in the path must be the one in the header, and the one that is computed.
#[utoipa::path(
    put, path = route::ARTIFACT, tag = "artifacts", operation_id = "put_artifact",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits")),
    request_body(content = inline(Binary), content_type = "application/x-tar"),
    responses(
        (status = 201, description = "Stored and visible", body = Artifact,
            headers(("Location" = String, description = "The artifact, relative to this server"))),
        (status = 200, description = "It was there already", body = Artifact,
            headers(("Location" = String, description = "The artifact, relative to this server"))),
        (status = 408, description = "The body was cut short; nothing stays behind", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is stored here with another header", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than this server takes", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Not a tar, or the weights are not safetensors", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not what the header says; nothing stays behind", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn put_artifact(
    State(registry): State<Arc<Registry>>,
    Segments(content_hash): Segments<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let content_hash = hash(&content_hash)?;
    media_type(&headers, &[route::TAR, "application/octet-stream"], false)?;
    let limits = &registry.options().limits;
    // Tar adds a header and padding to each file; a megabyte covers the largest number of shards.
    declared_length(&headers, limits.artifact_bytes + limits.header_bytes + limits.index_bytes + (2 << 20))?;
    let finished = registry.put_artifact(content_hash, body.into_data_stream()).await?;
    Ok(stored(&finished))
}
