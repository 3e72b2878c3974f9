//! `GET /v1/runs/{run}/events`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::core::error::ErrorCode;
use crate::http::extract::{Query, Segments, bad_parameter, run_name, text_header};
use crate::http::problem::Failure;
use crate::service::Registry;
use crate::service::news::Subscription;

/// How often a silent stream says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// From where on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    after: Option<String>,
}

/// Listen to a run
///
/// Server-sent events: `checkpoint.committed`, `round.close`, `round.aborted`, `dataset.committed`, `document.added`.
/// Each has an id; a client that names the last one in `Last-Event-ID` (or `?after=`) misses nothing. Without either
/// the stream begins with what happens next; with `0` it begins with everything that ever happened.
#[utoipa::path(
    get, path = route::EVENTS, tag = "runs", operation_id = "get_events",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("after" = Option<u64>, Query, description = "The last event that the client knows"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The same, as browsers send it"),
    ),
    responses(
        (status = 200, description = "Events until the client goes", content_type = "text/event-stream", body = String),
        (status = 400, description = "A parameter cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_events(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let run = run_name(&run)?;
    let number = |key: &'static str, text: &str| {
        text.parse::<u64>().map_err(|_| Failure::from(bad_parameter(key, "the last event's id must be a number")))
    };
    // The header is newer than the address, which a client that comes back asks for again.
    let after = match (text_header(&headers, "last-event-id")?, from.after) {
        (Some(text), _) => Some(number("last-event-id", text)?),
        (None, Some(text)) => Some(number("after", &text)?),
        (None, None) => None,
    };
    let subscription = registry.subscribe(&run, after).await?;
    let events = Sse::new(events(registry, subscription)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    // Proxies that collect answers would keep news back.
    let describe = [(header::CACHE_CONTROL.as_str(), "no-store"), ("x-accel-buffering", "no")];
    Ok((describe, events).into_response())
}

fn events(registry: Arc<Registry>, subscription: Subscription) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let pages = stream::unfold(Some((registry, subscription)), async |state| {
        let (registry, mut subscription) = state?;
        loop {
            match registry.next_events(&mut subscription).await {
                Ok(page) if !page.is_empty() => {
                    let told: Vec<Event> = page
                        .into_iter()
                        .map(|row| Event::default().id(row.seq.to_string()).event(row.kind).data(row.data))
                        .collect();
                    return Some((told, Some((registry, subscription))));
                }
                Ok(_) if subscription.changed().await => {}
                Ok(_) => return None,
                Err(error) => {
                    // The client comes back by itself, with the id of the last event it has.
                    tracing::error!(code = %ErrorCode::Internal, error = ?error, "events could not be read");
                    return None;
                }
            }
        }
    });
    pages.flat_map(|page| stream::iter(page.into_iter().map(Ok)))
}
