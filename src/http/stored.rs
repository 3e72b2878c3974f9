//! The answer to whoever has just sent an artifact, in one request or in a session.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::artifact::Artifact;
use crate::api::route;
use crate::service::finish::Finished;

/// 201 or 200 with the artifact, and where it is.
#[must_use]
pub fn stored(finished: &Finished) -> Response {
    let status = if finished.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut artifact = Artifact::clone(&finished.artifact);
    artifact.warnings.clone_from(&finished.warnings);
    let location = route::artifact(&artifact.content_hash);
    (status, [(header::LOCATION, location)], Json(artifact)).into_response()
}
