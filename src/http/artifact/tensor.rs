//! `GET /v1/artifacts/{content_hash}/tensors/{name}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;

use crate::api::problem::Problem;
use crate::api::route;
use crate::http::bytes::answer;
use crate::http::extract::{Connection, Segments, hash};
use crate::http::openapi::Binary;
use crate::http::problem::Failure;
use crate::service::Registry;

/// Fetch one tensor
///
/// Its element bytes, little-endian, in C order; `X-Tensor-Dtype` and `X-Tensor-Shape` say what they are.
#[utoipa::path(
    get, path = route::TENSOR, tag = "artifacts", operation_id = "get_tensor",
    params(("content_hash" = String, Path, description = "H1, 64 lowercase hexadecimal digits"), ("name" = String, Path, description = "The tensor's name, percent-encoded")),
    responses(
        (status = 200, description = "The element bytes", content_type = "application/octet-stream", body = inline(Binary),
            headers(("X-Tensor-Dtype" = String, description = "`float32`, `float16` or `bfloat16`"), ("X-Tensor-Shape" = String, description = "The dimensions, a JSON array"))),
        (status = 206, description = "The wanted range of it"),
        (status = 304, description = "What the client holds is still right"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "The range lies outside", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "Stored bytes are damaged; push again to repair them", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_tensor(
    State(registry): State<Arc<Registry>>,
    Segments((content_hash, name)): Segments<(String, String)>,
    Connection(wire): Connection,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let fetched = registry.fetch_tensor(hash(&content_hash)?, &name).await?;
    answer(&fetched, "application/octet-stream", &method, &headers, wire)
}
