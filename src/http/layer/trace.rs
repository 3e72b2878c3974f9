//! One span and one line in the log for each request. Never a query string, a header or a body.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use super::RequestId;

/// Logs how each request ended.
pub async fn trace(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().map_or_else(String::new, |id| id.0.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("http", request.id = %id, method = %request.method(), route);
    let start = Instant::now();
    async {
        let response = next.run(request).await;
        let status = response.status().as_u16();
        let duration_ms = start.elapsed().as_millis();
        tracing::debug!(status, duration_ms, "answered");
        response
    }
    .instrument(span)
    .await
}
