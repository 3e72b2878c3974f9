//! `HEAD /v1/uploads/{id}/files/{file}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::api::route;
use crate::http::extract::Segments;
use crate::http::problem::Failure;
use crate::service::Registry;

/// Ask how far a file has come
///
/// `Upload-Offset` is the number of durable bytes, where the next PATCH begins; `Upload-Length` the length of the
/// whole file, once it is known.
#[utoipa::path(
    head, path = route::UPLOAD_FILE, tag = "uploads", operation_id = "head_upload_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("file" = String, Path, description = "A name in `weight_files`, or `weights.index.json`"),
    ),
    responses(
        (status = 200, description = "How far it has come", headers(
            ("Upload-Offset" = u64, description = "Durable bytes; the next PATCH begins here"),
            ("Upload-Length" = u64, description = "Bytes of the whole file, once known"),
        )),
        (status = 404, description = "No such session or file"),
    )
)]
pub async fn head_upload_file(
    State(registry): State<Arc<Registry>>,
    Segments((id, file)): Segments<(String, String)>,
) -> Result<Response, Failure> {
    let state = registry.upload_file(&id, &file).await?;
    let mut response = [(header::CACHE_CONTROL, "no-store")].into_response();
    response.headers_mut().insert(route::UPLOAD_OFFSET, state.offset.into());
    if let Some(length) = state.length {
        response.headers_mut().insert(route::UPLOAD_LENGTH, length.into());
    }
    Ok(response)
}
