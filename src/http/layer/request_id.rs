//! A name for each request, in the answer and in the log.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;

use crate::api::route::REQUEST_ID;

/// The name of a request.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Unique within the process and, by the process's random start, practically everywhere.
fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static START: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let start = START.get_or_init(|| {
        let mut bits = [0; 8];
        // Without random bits the names are still unique within the process.
        let _ = getrandom::fill(&mut bits);
        u64::from_le_bytes(bits)
    });
    format!("{start:016x}-{:x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Takes the client's `X-Request-Id` if it is harmless, else makes one; gives it back in the answer.
pub async fn request_id(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(|text| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    });
    let id = given.map_or_else(fresh, str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}
