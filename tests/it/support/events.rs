//! A listener to server-sent events.

use std::collections::VecDeque;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde_json::Value;

use super::client::Api;
use super::wait::soon;

/// An event as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub id: u64,
    pub kind: String,
    pub data: Value,
}

pub struct Events {
    stream: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    text: String,
    ready: VecDeque<Told>,
}

impl Events {
    /// Listens to a run; `query` and `last` say from where on.
    pub async fn listen(api: &Api, run: &str, query: &str, last: Option<u64>) -> Self {
        let mut request = api.request(reqwest::Method::GET, &format!("/v1/runs/{run}/events{query}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = soon("the head of a stream", request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { stream: Box::pin(response.bytes_stream()), text: String::new(), ready: VecDeque::new() }
    }

    /// The next event; `None` when the server has ended the stream.
    pub async fn next(&mut self) -> Option<Told> {
        while self.ready.is_empty() {
            let Some(chunk) = soon("an event", self.stream.next()).await else {
                assert_eq!(self.text, "", "half an event");
                return None;
            };
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                self.ready.extend(read(event));
                self.text = rest.to_owned();
            }
        }
        self.ready.pop_front()
    }
}

/// An event's lines; a heartbeat is none.
fn read(text: &str) -> Option<Told> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if text.lines().all(|line| line.starts_with(':')) {
        return None;
    }
    Some(Told {
        id: line("id").unwrap().parse().unwrap(),
        kind: line("event").unwrap().to_owned(),
        data: serde_json::from_str(line("data").unwrap()).unwrap(),
    })
}
