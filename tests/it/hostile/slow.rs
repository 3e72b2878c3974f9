//! Sockets: huge claims, silence, garbage.

use std::time::Duration;

use serde_json::json;

use crate::support::checkpoint::{CheckpointBuilder, SINGLE};
use crate::support::data;
use crate::support::raw::Raw;
use crate::support::server::{Setup, TestServer};
use crate::support::wait::until;

/// A server that loses patience soon.
async fn impatient() -> TestServer {
    let mut setup = Setup::default();
    setup.service.body_idle = Duration::from_millis(400);
    setup.connections.head = Duration::from_millis(400);
    TestServer::start_with(setup).await
}

#[tokio::test]
async fn a_body_that_is_too_large_by_its_own_word_is_refused_before_it_is_sent() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::new(1).build();
    let session = server.api.session(&checkpoint.header).await;
    let put = format!("PUT {}", checkpoint.path());
    let patch = format!("PATCH {session}/files/{SINGLE}");
    let partial = "content-type: application/partial-upload\r\nupload-offset: 0\r\n";
    for (request, headers, limit) in [
        (put.as_str(), "content-type: application/x-tar\r\n", 256u64 << 30),
        (patch.as_str(), partial, 64 << 30),
        ("POST /v1/uploads", "content-type: application/json\r\n", 16 << 20),
    ] {
        for expect in ["", "expect: 100-continue\r\n"] {
            for length in [1u64 << 40, 1 << 50, u64::MAX - 2] {
                let mut client = Raw::connect(server.address()).await;
                client
                    .send(format!("{request} HTTP/1.1\r\nhost: x\r\n{headers}{expect}content-length: {length}\r\n\r\n"))
                    .await;
                let answer = client.answer().await.unwrap();
                let problem = answer.refused(413, "registry_too_large");
                assert_eq!(problem["fields"]["bytes"], length, "{request}");
                assert!(problem["fields"]["limit"].as_u64().unwrap() >= limit, "{problem}");
                assert_eq!(answer.header("connection"), Some("close"), "{request}");
            }
        }
    }
    // A length that is no 64-bit number is no request at all.
    let mut client = Raw::connect(server.address()).await;
    client.send(format!("{put} HTTP/1.1\r\nhost: x\r\ncontent-length: 18446744073709551616\r\n\r\n")).await;
    assert!(client.answer().await.is_none_or(|answer| answer.status == 400));
    assert_eq!(data::blobs(server.dir()).len(), 0);
    server.api.store(&checkpoint).await;
}

/// Without a declared length the limits hold as well, as soon as they are passed.
#[tokio::test]
async fn a_chunked_header_that_goes_on_is_cut_off() {
    let server = TestServer::start().await;
    let mut client = Raw::connect(server.address()).await;
    client.send("POST /v1/uploads HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let chunk = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..17 {
        client.send(&chunk).await;
    }
    client.answer().await.unwrap().refused(413, "registry_too_large");
    data::assert_nothing_left(server.dir(), "the endless header").await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let server = impatient().await;
    for head in ["", "G", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: "] {
        let mut client = Raw::connect(server.address()).await;
        client.send(head).await;
        let answer = client.answer().await;
        assert!(answer.is_none_or(|answer| answer.status == 408 || answer.status == 400), "{head:?}");
        assert!(client.closed().await, "{head:?}");
    }
    // One byte at a time is no better: the time is for the whole head.
    let mut client = Raw::connect(server.address()).await;
    client.send("GET /healthz HTTP/1.1\r\nhost: x\r\n").await;
    let drip = async {
        while client.send("x").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    crate::support::wait::soon("the end of the drip", drip).await;
    assert_eq!(server.api.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_silent_body_is_answered_with_408_and_leaves_nothing() {
    let server = impatient().await;
    let checkpoint = CheckpointBuilder::sized(2, 300_000, 3).build();
    let tar = checkpoint.tar();
    for upto in [0, 100, 512, 900, 2000, 100_000, tar.len() - 2000, tar.len() - 1] {
        let mut client = Raw::connect(server.address()).await;
        let head = format!("PUT {} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", checkpoint.path(), tar.len());
        client.send(head).await;
        client.send(&tar[..upto]).await;
        client.answer().await.unwrap().refused(408, "registry_timeout");
        assert!(client.closed().await);
        data::assert_nothing_left(server.dir(), &format!("{upto} bytes of an archive, then silence")).await;
    }
    server.api.store(&checkpoint).await;
    for request in ["POST /v1/uploads".to_owned(), format!("POST {}/verify", checkpoint.path())] {
        let mut client = Raw::connect(server.address()).await;
        client.send(format!("{request} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{")).await;
        client.answer().await.unwrap().refused(408, "registry_timeout");
    }
    server.api.check(&checkpoint).await;
}

/// A client that goes away in the middle of an archive leaves nothing either.
#[tokio::test]
async fn an_archive_that_breaks_off_leaves_nothing() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(3, 2 << 20, 3).shards(2).build();
    let tar = checkpoint.tar();
    for upto in [0, 700, 3000, 1 << 20, tar.len() - 1024, tar.len() - 1] {
        let mut client = Raw::connect(server.address()).await;
        let head = format!("PUT {} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", checkpoint.path(), tar.len());
        client.send(head).await;
        client.send(&tar[..upto]).await;
        if upto > 1 << 20 {
            until("the files", || async { (data::blobs(server.dir()).len() == 2).then_some(()) }).await;
        }
        drop(client);
        until("the files to go", || async { data::blobs(server.dir()).is_empty().then_some(()) }).await;
        data::assert_nothing_left(server.dir(), &format!("{upto} bytes of an archive")).await;
    }
    server.api.store(&checkpoint).await;
}

/// The same bytes in every frame size, chunked, make the same artifact.
#[tokio::test]
async fn archives_are_taken_in_any_cut() {
    for chunk in [1, 7, 511, 513, 70_000] {
        let server = TestServer::start().await;
        let checkpoint = CheckpointBuilder::random(chunk as u64).build();
        let chunks: Vec<_> =
            checkpoint.tar().chunks(chunk).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
        let body = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
        assert_eq!(server.api.put(&checkpoint.content_hash, body).await.status, 201);
        server.api.check(&checkpoint).await;
    }
}

#[tokio::test]
async fn garbage_on_the_socket_is_never_a_success_and_harms_nobody() {
    let server = TestServer::start().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    let many: String = (0..5000).map(|number| format!("x-{number}: y\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n");
    let smuggled = "POST /v1/uploads HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    for garbage in [
        b"\0\0\0\0\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 what TLS says\r\n\r\n",
        b"HELO x\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /v1/artifacts/\r\n HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PUT /v1/artifacts/x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        long.as_bytes(),
        many.as_bytes(),
        smuggled.as_bytes(),
    ] {
        let mut client = Raw::connect(server.address()).await;
        client.send(garbage).await;
        if let Some(answer) = client.answer().await {
            let shown = String::from_utf8_lossy(&garbage[..garbage.len().min(60)]).into_owned();
            assert!((400..500).contains(&answer.status), "{shown}: {}", answer.status);
        }
    }
    assert_eq!(server.api.get("/readyz").await.status, 200);
    data::assert_nothing_left(server.dir(), "garbage").await;
}

/// Eight bytes are enough to refuse a file, whatever else was announced.
#[tokio::test]
async fn an_impossible_header_length_is_refused_after_eight_bytes() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::new(4).build();
    let session = server.api.session(&checkpoint.header).await;
    for length in [u64::MAX, 1 << 63, 1 << 40, 100_000_001, (16 << 20) + 1, 0, 1] {
        let mut client = Raw::connect(server.address()).await;
        let head = format!(
            "PATCH {session}/files/{SINGLE} HTTP/1.1\r\nhost: x\r\nupload-offset: 0\r\ncontent-length: 60000000000\r\n\
            content-type: application/partial-upload\r\n\r\n"
        );
        client.send(head).await;
        client.send(length.to_le_bytes()).await;
        let problem = client.answer().await.unwrap().refused(422, "checkpoint_integrity");
        assert_eq!(problem["fields"]["header_bytes"], json!(length), "{problem}");
    }
    // Eight bytes and the ninth are enough for these.
    for (start, name) in [
        (b"PK\x03\x04\x14\0\0\0\x08".as_slice(), "a zip archive"),
        (b"\x80\x02}q\0X\0\0\0", "a Python pickle"),
        (b"version https", "a git-LFS pointer"),
        (b"<!DOCTYPE", "an HTML page"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0", "gzip"),
        (b"7z\xbc\xaf\x27\x1c\0\x04\0", "a 7z archive"),
        (b"GGUF\x03\0\0\0\0", "a GGUF file"),
    ] {
        let answer = server.api.patch(&session, SINGLE, 0, start).await;
        let problem = answer.refused(415, "checkpoint_integrity");
        assert!(problem["message"].as_str().unwrap().contains(name), "{problem}");
    }
    assert_eq!(data::blobs(server.dir()).len(), 0);
}
