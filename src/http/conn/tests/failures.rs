//! Answers that must not arrive whole.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{Extension, Router, body::Body, middleware::map_response, response::Response, routing::get};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;

use super::{
    super::{Options, Segment, Wire, body},
    support::{Client, MIB, collect, no_check, same, start, stored, tells_drop, within},
};

#[tokio::test]
async fn a_client_that_leaves_frees_everything() {
    let stored = stored(64 * MIB);
    let dropped = Arc::new(Notify::new());
    let told = Arc::clone(&dropped);
    let weak = Arc::downgrade(&stored.file);
    let expected = Arc::clone(&stored.bytes);
    let server = start(stored.router(move || Some(tells_drop(&told))), Options::default()).await;
    let handles = weak.strong_count();
    for _ in 0..10 {
        let mut client = Client::connect_narrow(&server).await;
        client.get("/").await;
        within(client.head()).await;
        same(&within(client.exactly(MIB)).await, &expected[..MIB]);
        drop(client);
        within(dropped.notified()).await;
    }
    // The body and the queued windows go with the connection, in an order that is hyper's.
    within(async {
        while weak.strong_count() > handles {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    same(&within(client.answer()).await.1, &expected);
}

#[tokio::test]
async fn a_file_cut_short_breaks_the_connection() {
    let stored = stored(64 * MIB);
    let server = start(stored.router(no_check), Options::default()).await;
    let mut client = Client::connect_narrow(&server).await;
    client.get("/").await;
    within(client.head()).await;
    let mut found = within(client.exactly(MIB)).await;
    // No socket's buffer reaches that far, so the server has yet to come here.
    stored.file.set_len(32 * MIB as u64 + 5).unwrap();
    found.extend(within(client.rest()).await);
    assert!(found.len() <= 32 * MIB + 5, "{} bytes", found.len());
    same(&found, &stored.bytes[..found.len()]);
}

#[tokio::test]
async fn a_failed_last_check_breaks_the_connection() {
    let stored = stored(3 * MIB + 100);
    let router = stored.router(|| Some(Box::new(|| Err(io::Error::other("the file was changed")))));
    let server = start(router, Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    assert_eq!(within(client.head()).await.length, 3 * MIB + 100);
    let found = within(client.rest()).await;
    assert!(found.len() <= 3 * MIB);
    same(&found, &stored.bytes[..found.len()]);
}

#[tokio::test]
async fn a_failed_last_check_fails_a_body_that_is_read() {
    let stored = stored(MIB);
    let check = || Some(Box::new(|| Err(io::Error::other("the file was changed"))) as super::super::BeforeLast);
    assert!(collect(body(None, vec![stored.whole()], check())).await.is_err());
    assert!(collect(body(None, vec![Segment::Bytes(Bytes::from_static(b"small"))], check())).await.is_err());
}

#[tokio::test]
async fn a_missing_end_fails_a_body() {
    let stored = stored(MIB);
    assert!(collect(body(None, vec![stored.part(MIB - 10, 11)], None)).await.is_err());
    assert!(collect(body(None, vec![stored.part(0, 2 * MIB)], None)).await.is_err());
}

/// What a middleware might do to a body.
#[derive(Clone, Copy)]
enum Meddling {
    /// Passes on copies, and lets go of what it copied.
    Copies,
    /// Passes on copies, and keeps what it copied.
    Keeps,
    /// Passes on halves, without a copy.
    Splits,
    /// Leaves out every second frame.
    Skips,
    /// Changes nothing but forgets the length.
    Forgets,
}

struct Meddled {
    body: Body,
    how: Meddling,
    kept: Vec<Bytes>,
    skip: bool,
}

impl http_body::Body for Meddled {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let (Meddling::Splits, Some(rest)) = (self.how, self.kept.pop()) {
            return Poll::Ready(Some(Ok(Frame::data(rest))));
        }
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else { return Poll::Ready(None) };
            let mut bytes = frame.into_data().unwrap();
            let passed = match self.how {
                Meddling::Copies => Bytes::copy_from_slice(&bytes),
                Meddling::Keeps => {
                    let copy = Bytes::copy_from_slice(&bytes);
                    self.kept.push(bytes);
                    copy
                }
                Meddling::Splits => {
                    let first = bytes.split_to(bytes.len() / 2);
                    self.kept.push(bytes);
                    first
                }
                Meddling::Skips => {
                    self.skip = !self.skip;
                    if self.skip {
                        continue;
                    }
                    bytes
                }
                Meddling::Forgets => bytes,
            };
            return Poll::Ready(Some(Ok(Frame::data(passed))));
        }
    }

    fn size_hint(&self) -> SizeHint {
        if matches!(self.how, Meddling::Forgets) { SizeHint::default() } else { self.body.size_hint() }
    }
}

/// Serves a file past a meddling middleware, and returns what arrives.
async fn meddle(how: Meddling) -> (usize, Vec<u8>) {
    let stored = stored(3 * MIB);
    let layer = map_response(move |response: Response| async move {
        response.map(|body| Body::new(Meddled { body, how, kept: Vec::new(), skip: false }))
    });
    let server = start(stored.router(no_check).layer(layer), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    let all = within(client.rest()).await;
    let head = all.windows(4).position(|end| end == b"\r\n\r\n").map_or(all.len(), |end| end + 4);
    (stored.bytes.len(), all[head..].to_vec())
}

#[tokio::test]
async fn meddling_with_a_body_breaks_the_connection() {
    for how in [Meddling::Copies, Meddling::Keeps, Meddling::Splits, Meddling::Skips, Meddling::Forgets] {
        let (len, found) = meddle(how).await;
        assert!(found.len() < len);
        assert!(found.is_empty(), "{} bytes of a body", found.len());
    }
}

#[tokio::test]
async fn a_body_read_inside_the_server_is_an_error() {
    let stored = stored(3 * MIB);
    let layer = map_response(async move |response: Response| {
        let failed = collect(response.into_body()).await.is_err();
        Response::new(Body::from(failed.to_string()))
    });
    let server = start(stored.router(no_check).layer(layer), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    let all = String::from_utf8(within(client.rest()).await).unwrap();
    // The connection may be broken too.
    assert!(all.is_empty() || all.ends_with("true"), "{all}");
}

#[tokio::test]
async fn a_panic_ends_one_connection_only() {
    let router = Router::new()
        .route("/", get(async || "fine"))
        .route("/panic", get(async |_: Extension<Wire>| -> &'static str { panic!("on purpose") }));
    let server = start(router, Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/panic").await;
    assert!(within(client.rest()).await.is_empty());
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    same(&within(client.answer()).await.1, b"fine");
}
