//! Answers that arrive.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Extension, Router,
    extract::ConnectInfo,
    http::{Request, Uri},
    routing::get,
};
use bytes::Bytes;
use http_body::Body as _;
use tower::ServiceExt as _;

use super::{
    super::{BeforeLast, Options, Segment, Wire, body},
    support::{Client, MIB, Stored, collect, no_check, same, start, stored, within},
};

const SIZE: usize = 64 * MIB;

/// Pieces of all kinds, at offsets of no alignment, and what they amount to.
fn mixed(stored: &Stored) -> (Vec<Segment>, Vec<u8>) {
    let bytes = |len: usize| Segment::Bytes(Bytes::from(vec![b'-'; len]));
    let parts = [(0, 5), (3, 3 * MIB + 7), (0, 300_000), (MIB, 64 << 10), (0, 1), (77, (64 << 10) + 1), (0, 0), (9, 9)];
    let mut segments = Vec::new();
    let mut whole = Vec::new();
    for (index, (offset, len)) in parts.into_iter().enumerate() {
        if index % 2 == 0 {
            segments.push(bytes(len));
            whole.resize(whole.len() + len, b'-');
        } else {
            segments.push(stored.part(offset, len));
            whole.extend_from_slice(&stored.bytes[offset..offset + len]);
        }
    }
    (segments, whole)
}

#[tokio::test]
async fn a_file_arrives_whole() {
    let stored = stored(SIZE);
    let server = start(stored.router(no_check), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    let (head, found) = within(client.answer()).await;
    assert_eq!((head.status, head.length), (200, SIZE));
    same(&found, &stored.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_segments_arrive_in_order() {
    let stored = stored(4 * MIB);
    let (_, expected) = mixed(&stored);
    let answer = async move |Extension(wire): Extension<Wire>| body(Some(wire), mixed(&stored).0, None);
    let server = start(Router::new().route("/", get(answer)), Options::default()).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..20 {
        client.get("/").await;
        same(&within(client.answer()).await.1, &expected);
    }
}

/// `/N` answers with a part of the file that depends on N, `/text` with a few bytes.
fn parts(stored: &Stored) -> Router {
    let stored = stored.clone();
    let answer = async move |Extension(wire): Extension<Wire>, uri: Uri| {
        let (offset, len) = place(uri.path());
        body(Some(wire), vec![stored.part(offset, len)], None)
    };
    Router::new().route("/text", get(async || "text")).fallback(answer)
}

fn place(path: &str) -> (usize, usize) {
    let number: usize = path[1..].parse().unwrap();
    (number * 1000, 1 + number * 40_503 % MIB)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_kept_for_many_requests() {
    let stored = stored(2 * MIB);
    let server = start(parts(&stored), Options::default()).await;
    let mut client = Client::connect(&server).await;
    for number in 0..200 {
        let (offset, len) = place(&format!("/{number}"));
        client.get(&format!("/{number}")).await;
        same(&within(client.answer()).await.1, &stored.bytes[offset..offset + len]);
        client.get("/text").await;
        same(&within(client.answer()).await.1, b"text");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let stored = stored(2 * MIB);
    let server = start(parts(&stored), Options::default()).await;
    let mut client = Client::connect(&server).await;
    let requests: Vec<_> = (0..100)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nhost: h\r\n\r\nGET /text HTTP/1.1\r\nhost: h\r\n\r\n"))
        .collect();
    client.send(&requests.concat()).await;
    for number in 0..100 {
        let (offset, len) = place(&format!("/{number}"));
        same(&within(client.answer()).await.1, &stored.bytes[offset..offset + len]);
        same(&within(client.answer()).await.1, b"text");
    }
}

#[tokio::test]
async fn a_head_request_gets_no_body() {
    let stored = stored(2 * MIB);
    let checked = Arc::new(AtomicBool::new(false));
    let check = Arc::clone(&checked);
    let before_last = move || -> Option<BeforeLast> {
        let check = Arc::clone(&check);
        Some(Box::new(move || {
            check.store(true, Ordering::Relaxed);
            Ok(())
        }))
    };
    let server = start(stored.router(before_last), Options::default()).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..3 {
        client.send("HEAD / HTTP/1.1\r\nhost: h\r\n\r\n").await;
        assert_eq!(within(client.head()).await.length, 2 * MIB);
    }
    assert!(!checked.load(Ordering::Relaxed));
    client.get("/").await;
    same(&within(client.answer()).await.1, &stored.bytes);
    assert!(checked.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_old_client_is_answered_too() {
    let stored = stored(2 * MIB);
    let server = start(stored.router(no_check), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.send("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(within(client.head()).await.length, 2 * MIB);
    same(&within(client.rest()).await, &stored.bytes);
}

#[tokio::test]
async fn a_slow_reader_holds_the_body_back() {
    let stored = stored(SIZE);
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let before_last = move || -> Option<BeforeLast> {
        let end = Arc::clone(&end);
        Some(Box::new(move || {
            end.store(true, Ordering::Relaxed);
            Ok(())
        }))
    };
    let server = start(stored.router(before_last), Options::default()).await;
    let mut client = Client::connect_narrow(&server).await;
    client.get("/").await;
    let head = within(client.head()).await;
    let mut found = Vec::new();
    while found.len() < SIZE / 2 {
        found.extend(within(client.exactly(MIB / 8)).await);
        // The rest fits no socket's buffer, so it can only be in the file.
        assert!(!ended.load(Ordering::Relaxed));
    }
    found.extend(within(client.exactly(head.length - found.len())).await);
    assert!(ended.load(Ordering::Relaxed));
    same(&found, &stored.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_are_served_at_once() {
    let stored = stored(8 * MIB);
    let server = start(stored.router(no_check), Options::default()).await;
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let (address, stored) = (server.address, stored.clone());
            tokio::spawn(async move {
                let mut client = Client(tokio::net::TcpStream::connect(address).await.unwrap());
                for _ in 0..3 {
                    client.get("/").await;
                    same(&client.answer().await.1, &stored.bytes);
                }
            })
        })
        .collect();
    for client in clients {
        within(client).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_connection_files_are_read() {
    let stored = stored(4 * MIB);
    let (_, expected) = mixed(&stored);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let answer = async move |wire: Option<Extension<Wire>>| {
        let counted = Arc::clone(&counted);
        let check: BeforeLast = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        body(wire.map(|wire| wire.0), mixed(&stored).0, Some(check))
    };
    let router = Router::new().route("/", get(answer));
    let request = Request::get("/").body(axum::body::Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), Some(expected.len() as u64));
    same(&collect(response.into_body()).await.unwrap(), &expected);
    assert_eq!(calls.load(Ordering::Relaxed), 1);

    // Nor if the connection's handle is withheld.
    let server = start(router, Options { sendfile: false, ..Options::default() }).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    same(&within(client.answer()).await.1, &expected);
}

#[tokio::test]
async fn a_file_that_is_not_in_memory_arrives() {
    let stored = stored(20 * MIB + 3);
    let router = stored.router(no_check);
    let evict = || {
        // Where the file system keeps it nevertheless, this is the same as the tests above.
        stored.file.sync_all().unwrap();
        let _ = rustix::fs::fadvise(&stored.file, 0, None, rustix::fs::Advice::DontNeed);
    };
    for sendfile in [true, false] {
        evict();
        let server = start(router.clone(), Options { sendfile, ..Options::default() }).await;
        let mut client = Client::connect(&server).await;
        client.get("/").await;
        same(&within(client.answer()).await.1, &stored.bytes);
    }
}

#[tokio::test]
async fn an_empty_body_is_empty() {
    let stored = stored(0);
    let server = start(stored.router(no_check), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    assert_eq!(within(client.answer()).await.0.length, 0);
    client.get("/").await;
    assert_eq!(within(client.answer()).await.0.status, 200);
}

#[tokio::test]
async fn a_handler_knows_the_client() {
    let answer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
    let server = start(Router::new().route("/", get(answer)), Options::default()).await;
    let mut client = Client::connect(&server).await;
    client.get("/").await;
    let expected = client.0.local_addr().unwrap().to_string();
    same(&within(client.answer()).await.1, expected.as_bytes());
}
