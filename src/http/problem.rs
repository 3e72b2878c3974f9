//! The one way in which a failure becomes an answer, with the one table from codes to statuses.

use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::layer::RequestId;
use crate::api::problem::{MEDIA_TYPE, Problem};
use crate::api::route;
use crate::core::error::{DomainError, ErrorCode};
use crate::service::ServiceError;

/// A failure on its way out.
#[derive(Debug)]
pub struct Failure(ServiceError);

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self(error)
    }
}

impl From<DomainError> for Failure {
    fn from(error: DomainError) -> Self {
        Self(error.into())
    }
}

/// The status of a refusal. No wildcard: a new code does not compile until it has a status.
fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::ConfigInvalid | ErrorCode::RegistryDigestMissing => StatusCode::BAD_REQUEST,
        ErrorCode::WmcpContractViolation
        | ErrorCode::AggNondeterministic
        | ErrorCode::ProvenanceFailed
        | ErrorCode::CommitmentMismatch
        | ErrorCode::RoundFailed
        | ErrorCode::FaultToleranceExceeded
        | ErrorCode::FrameDriftExceeded
        | ErrorCode::ProcrustesDegenerate
        | ErrorCode::AggregationFailed
        | ErrorCode::SecureAggFailed
        | ErrorCode::DpBudgetExceeded
        | ErrorCode::RegistryConflict
        | ErrorCode::RegistryUploadOffset
        | ErrorCode::RegistryUploadState => StatusCode::CONFLICT,
        ErrorCode::ResidencyViolation
        | ErrorCode::MerkleVerifyFailed
        | ErrorCode::ArtifactInvalid
        | ErrorCode::SchemaVersionMismatch
        | ErrorCode::CheckpointIntegrity
        | ErrorCode::ProbeInvalid
        | ErrorCode::GaugeFailed
        | ErrorCode::EvaluationFailed => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::RegistryUnauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::RegistryForbidden => StatusCode::FORBIDDEN,
        ErrorCode::RegistryNotFound => StatusCode::NOT_FOUND,
        ErrorCode::RegistryMethod => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::RegistryTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::RegistryPrecondition => StatusCode::PRECONDITION_FAILED,
        ErrorCode::RegistryTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::RegistryUnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::RegistryRange => StatusCode::RANGE_NOT_SATISFIABLE,
        ErrorCode::RegistryRateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::RegistryUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::RegistryStorageFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// What may be shown of a failure. What a client cannot mend is told in fixed words; its reasons are in the log.
fn shown(error: &ServiceError) -> (StatusCode, DomainError) {
    match error {
        ServiceError::Refused(error) => {
            let media = error.fields().get("reason").is_some_and(|reason| reason == "not_safetensors");
            let status = if media { StatusCode::UNSUPPORTED_MEDIA_TYPE } else { status(error.code()) };
            (status, error.clone())
        }
        ServiceError::Conflict(error) => (StatusCode::CONFLICT, error.clone()),
        ServiceError::Malformed(error) => (StatusCode::UNPROCESSABLE_ENTITY, error.clone()),
        ServiceError::Damaged(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.clone()),
        ServiceError::NoSuchView(error) => (StatusCode::NOT_ACCEPTABLE, error.clone()),
        ServiceError::Cut(why) => {
            let error = DomainError::new(ErrorCode::RegistryTimeout, format!("the body was cut short: {why}"));
            (StatusCode::REQUEST_TIMEOUT, error)
        }
        ServiceError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            let error = DomainError::new(ErrorCode::RegistryStorageFull, "the registry has no space left");
            (StatusCode::INSUFFICIENT_STORAGE, error)
        }
        ServiceError::Io { .. } | ServiceError::Store(_) | ServiceError::Worker(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            DomainError::new(ErrorCode::Internal, "the registry failed; the reason is in its log"),
        ),
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, error) = shown(&self.0);
        if status.is_server_error() {
            // Once, with the whole chain; the client sees none of it.
            let chain = std::iter::successors(Some(&self.0 as &dyn std::error::Error), |error| error.source());
            let chain: Vec<String> = chain.map(ToString::to_string).collect();
            tracing::error!(code = %error.code(), reason = chain.join(": "), "request failed");
        }
        let mut response = status.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(offset) = error.fields().get("upload_offset").and_then(serde_json::Value::as_u64) {
            headers.insert(route::UPLOAD_OFFSET, offset.into());
        }
        if let Some(size) = error.fields().get("complete_length").and_then(serde_json::Value::as_u64) {
            headers.insert(
                header::CONTENT_RANGE,
                HeaderValue::try_from(format!("bytes */{size}")).unwrap_or(HeaderValue::from_static("bytes */0")),
            );
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response.extensions_mut().insert(Shown(Problem::new(&error, status.as_u16())));
        response
    }
}

/// A problem that waits for its request id.
#[derive(Clone)]
struct Shown(Problem);

/// Writes the body of every refusal, those of the router included, with the request's id in it.
pub async fn write_problems(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    let head_only = request.method() == Method::HEAD;
    let mut response = next.run(request).await;
    let Some(Shown(mut problem)) = response.extensions_mut().remove::<Shown>() else { return response };
    problem.request_id = id;
    let text = serde_json::to_vec(&problem).unwrap_or_default();
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_LENGTH, text.len().into());
    let body = if head_only { axum::body::Body::empty() } else { text.into() };
    Response::from_parts(parts, body)
}

/// 404 for a path that nothing answers.
pub async fn unknown_path() -> Failure {
    let error = DomainError::new(ErrorCode::RegistryNotFound, "nothing is served at this path")
        .remedy("See /docs for what is served here.");
    error.into()
}

/// 405 for a method that a path does not answer.
pub async fn unknown_method() -> Failure {
    DomainError::new(ErrorCode::RegistryMethod, "this path does not answer this method").into()
}
