//! One span, one line in the log and one count for each request. Never a query string, a header or a body.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use super::RequestId;
use crate::service::Registry;

/// Logs how each request ended.
pub async fn trace(State(registry): State<Arc<Registry>>, request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().map_or_else(String::new, |id| id.0.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let span = tracing::info_span!("http", request.id = %id, %method, route);
    let start = Instant::now();
    async {
        let response = next.run(request).await;
        let status = response.status().as_u16();
        if let Some(bytes) = stored_bytes(&method, &response) {
            registry.metrics().given_out(bytes);
        }
        registry.metrics().answered(&route, method.as_str(), status, start.elapsed());
        let duration_ms = start.elapsed().as_millis();
        tracing::debug!(status, duration_ms, "answered");
        response
    }
    .instrument(span)
    .await
}

/// Bytes of stored files that an answer gives out; nothing else can be asked for in ranges.
fn stored_bytes(method: &Method, response: &Response) -> Option<u64> {
    let sent = *method == Method::GET && matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT);
    response.headers().get(header::ACCEPT_RANGES).filter(|_| sent)?;
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
