//! `GET /v1/runs/{run}/head`

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::api::problem::Problem;
use crate::api::route;
use crate::api::run::Head;
use crate::http::bytes::lists;
use crate::http::extract::{Query, Segments, bad_parameter, run_name, text_header};
use crate::http::problem::Failure;
use crate::service::Registry;

/// The longest wait for news; whoever wants to wait longer asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How long to wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    wait: Option<String>,
}

/// Look at a run's head
///
/// The newest round, its weights and where the ledger ends. With `If-None-Match` and `wait` the answer comes as soon as
/// the head is another one, or as 304 when the time is over.
#[utoipa::path(
    get, path = route::HEAD, tag = "runs", operation_id = "get_head",
    params(
        ("run" = String, Path, description = "The run's name"),
        ("wait" = Option<String>, Query, description = "How long to wait for another head, such as `30s`; 60 s at most"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the head that the client knows"),
    ),
    responses(
        (status = 200, description = "The head", body = Head,
            headers(("ETag" = String, description = "Changes with the round and the ledger; aborts leave it as it is"))),
        (status = 304, description = "Still the same"),
        (status = 400, description = "A parameter cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Not in this registry", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_head(
    State(registry): State<Arc<Registry>>,
    Segments(run): Segments<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let run = run_name(&run)?;
    let patience = waiting.wait.as_deref().map(duration).transpose()?;
    let known = text_header(&headers, "if-none-match")?.unwrap_or_default();
    let same = |tag: &str| lists(known, tag);
    let (mut head, mut tag) = registry.head(&run).await?;
    if same(&tag)
        && let Some(patience) = patience
    {
        (head, tag) = registry.wait_for_head(&run, &tag, patience.min(LONGEST_WAIT)).await?;
    }
    let describe = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if same(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, describe).into_response());
    }
    Ok((describe, Json(&*head)).into_response())
}

/// `30s`, `500ms`, `1m`, or a bare number of seconds.
fn duration(text: &str) -> Result<Duration, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = digits.parse::<u32>().ok();
    let unit = match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(1)),
        "" | "s" => Some(Duration::from_secs(1)),
        "m" => Some(Duration::from_mins(1)),
        _ => None,
    };
    let wait = number.zip(unit).map(|(number, unit)| unit.saturating_mul(number));
    wait.ok_or_else(|| bad_parameter("wait", "wait must be a time such as 30s").into())
}
