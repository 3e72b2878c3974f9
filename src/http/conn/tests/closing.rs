//! How connections and the server end.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::StatusCode,
    routing::{get, put},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
};

use super::{
    super::Options,
    support::{Client, MIB, Tells, noise, same, start, stored, tells_drop, within},
};

const MOMENT: Duration = Duration::from_millis(50);
const UPLOAD: usize = 50 * MIB;

/// Refuses uploads unseen, takes small ones, and answers on `/`.
fn refusing() -> Router {
    Router::new()
        .route("/refused", put(async |_: Body| (StatusCode::PAYLOAD_TOO_LARGE, "too large")))
        .route("/taken", put(async |body: String| body.len().to_string()))
        .route("/", get(async || "here"))
}

fn upload(path: &str, len: usize) -> String {
    format!("PUT {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {len}\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_then_reads_gets_an_early_answer() {
    let server = start(refusing(), Options::default()).await;
    for _ in 0..5 {
        let mut client = Client::connect(&server).await;
        client.send(&upload("/refused", UPLOAD)).await;
        within(client.0.write_all(&noise(UPLOAD))).await.unwrap();
        let (head, found) = within(client.answer()).await;
        assert_eq!(head.status, 413);
        assert!(head.text.contains("connection: close"), "{}", head.text);
        same(&found, b"too large");
        assert!(within(client.rest()).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_meanwhile_gets_an_early_answer() {
    let server = start(refusing(), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("PUT /refused HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let (mut read, mut write) = client.0.into_split();
    let sending = tokio::spawn(async move {
        let chunk = [b"100000\r\n", &noise(MIB)[..], b"\r\n"].concat();
        // Goes on until the server has closed for good.
        while write.write_all(&chunk).await.is_ok() {}
    });
    let mut answer = String::new();
    within(read.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("too large"), "{answer}");
    sending.abort();
}

#[tokio::test]
async fn a_client_that_waits_is_answered_without_its_body() {
    let server = start(refusing(), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("PUT /refused HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n").await;
    let (head, found) = within(client.answer()).await;
    assert_eq!(head.status, 413);
    assert!(head.text.contains("connection: close"), "{}", head.text);
    same(&found, b"too large");
    assert!(within(client.rest()).await.is_empty());
}

#[tokio::test]
async fn lingering_ends_when_the_client_goes_quiet() {
    let hour = Duration::from_hours(1);
    let options = Options { linger_idle: MOMENT, linger_total: hour, grace: hour, ..Options::default() };
    let mut server = start(refusing(), options).await;
    let mut client = Client::connect(&server).await;
    client.send(&upload("/refused", UPLOAD)).await;
    assert_eq!(within(client.answer()).await.0.status, 413);
    server.stop.take().unwrap().send(()).unwrap();
    within(server.ended).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lingering_ends_when_the_client_sends_too_much() {
    let bounded = [
        Options { linger_bytes: 4 << 20, ..Options::default() },
        Options { linger_total: MOMENT, ..Options::default() },
    ];
    for options in bounded {
        let server = start(refusing(), options).await;
        let mut client = Client::connect(&server).await;
        client.send(&upload("/refused", usize::MAX >> 1)).await;
        let data = noise(MIB);
        within(async { while client.0.write_all(&data).await.is_ok() {} }).await;
    }
}

#[tokio::test]
async fn a_connection_whose_request_was_read_is_kept() {
    let server = start(refusing(), Options::default()).await;
    let mut client = Client::connect(&server).await;
    for len in [0, 5, 200_000] {
        client.send(&upload("/taken", len)).await;
        client.0.write_all(&vec![b'x'; len]).await.unwrap();
        let (head, found) = within(client.answer()).await;
        assert!(!head.text.contains("close"), "{}", head.text);
        same(&found, len.to_string().as_bytes());
    }
    client.send("PUT /taken HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
    same(&within(client.answer()).await.1, b"3");
    client.get("/").await;
    same(&within(client.answer()).await.1, b"here");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = start(refusing(), Options { head: MOMENT * 6, ..Options::default() }).await;
    // Before the first request, within a head, and after an answer.
    let mut client = Client::connect(&server).await;
    assert!(within(client.rest()).await.is_empty());
    let mut client = Client::connect(&server).await;
    client.send("GET / HTTP/1.1\r\nhos").await;
    assert!(within(client.rest()).await.is_empty());
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    same(&within(client.answer()).await.1, b"here");
    assert!(within(client.rest()).await.is_empty());
}

#[tokio::test]
async fn an_endless_head_is_refused() {
    let server = start(refusing(), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.send(&format!("GET / HTTP/1.1\r\nhost: h\r\nx: {}", "x".repeat(70 << 10))).await;
    assert_eq!(within(client.head()).await.status, 431);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_dropped() {
    let stored = stored(64 * MIB);
    let dropped = Arc::new(Notify::new());
    let told = Arc::clone(&dropped);
    let router = stored.router(move || Some(tells_drop(&told)));
    let server = start(router, Options { stall: MOMENT, ..Options::default() }).await;
    let mut client = Client::connect_narrow(&server).await;
    client.get("/").await;
    within(dropped.notified()).await;
    let found = within(client.rest()).await;
    assert!(found.len() < stored.bytes.len());
}

/// Answers `/slow` only when it is let go, and tells that it was asked.
fn slow() -> (Router, Arc<Notify>, Arc<Notify>) {
    let (asked, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&asked), Arc::clone(&go));
    let answer = async move || {
        tell.notify_one();
        wait.notified().await;
        "late"
    };
    (Router::new().route("/slow", get(answer)).route("/", get(async || "here")), asked, go)
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_the_end() {
    let (router, asked, go) = slow();
    let mut server = start(router, Options::default()).await;
    let mut idle = Client::connect(&server).await;
    idle.get("/").await;
    within(idle.answer()).await;
    let mut client = Client::connect(&server).await;
    client.get("/slow").await;
    within(asked.notified()).await;
    server.stop.take().unwrap().send(()).unwrap();
    // The idle connection is closed at once, and nobody new gets in.
    assert!(within(idle.rest()).await.is_empty());
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
    assert!(!server.ended.is_finished());
    go.notify_one();
    let (head, found) = within(client.answer()).await;
    assert!(head.text.contains("connection: close"), "{}", head.text);
    same(&found, b"late");
    within(server.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_that_take_too_long_are_dropped() {
    let (router, asked, _go) = slow();
    let mut server = start(router, Options { grace: MOMENT, ..Options::default() }).await;
    let mut client = Client::connect(&server).await;
    client.get("/slow").await;
    within(asked.notified()).await;
    server.stop.take().unwrap().send(()).unwrap();
    within(server.ended).await.unwrap().unwrap();
    assert!(within(client.rest()).await.is_empty());
}

#[tokio::test]
async fn a_handler_is_dropped_with_its_client() {
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, told) = (Arc::clone(&asked), Arc::clone(&gone));
    let answer = async move || {
        let _tells = Tells(told);
        tell.notify_one();
        std::future::pending::<()>().await;
    };
    let server = start(Router::new().route("/", get(answer)), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    within(asked.notified()).await;
    drop(client);
    within(gone.notified()).await;
}
