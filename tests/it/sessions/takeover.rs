//! Broken and half-open connections: nothing that has arrived is lost, and the newest writer wins.

use std::time::Duration;

use reqwest::StatusCode;

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, SINGLE};
use crate::support::data;
use crate::support::raw::Raw;
use crate::support::server::{Setup, TestServer};
use crate::support::wait::until;

/// Begins a PATCH and sends a part of its body.
async fn begin(server: &TestServer, session: &str, offset: usize, bytes: &[u8], upto: usize) -> Raw {
    let mut client = Raw::connect(server.address()).await;
    let head = format!(
        "PATCH {session}/files/{SINGLE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/partial-upload\r\n\
        upload-offset: {offset}\r\ncontent-length: {}\r\n\r\n",
        bytes.len() - offset
    );
    assert!(client.send(head).await);
    assert!(client.send(&bytes[offset..upto]).await);
    client
}

/// Waits until the server has taken bytes off the connection and written them.
async fn written(server: &TestServer, len: usize) {
    until("the bytes on the disk", || async {
        let files = data::blobs(server.dir());
        files.iter().any(|path| path.metadata().is_ok_and(|file| file.len() >= len as u64)).then_some(())
    })
    .await;
}

async fn session(server: &TestServer, seed: u64) -> (Checkpoint, String) {
    let checkpoint = CheckpointBuilder::sized(seed, 400_000, 5).build();
    let session = server.api.session(&checkpoint.header).await;
    (checkpoint, session)
}

#[tokio::test]
async fn a_connection_that_breaks_loses_nothing_that_arrived() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (checkpoint, session) = session(&server, 1).await;
    let bytes = checkpoint.file(SINGLE);
    let mut at = 0;
    for end in [100_000, 250_000, 250_001, 399_000] {
        let client = begin(&server, &session, at, bytes, end).await;
        written(&server, end).await;
        drop(client);
        at = until("the broken upload to be saved", || async {
            let stored = api.offset(&session, SINGLE).await as usize;
            (stored > at).then_some(stored)
        })
        .await;
        assert_eq!(at, end);
    }
    api.append(&session, SINGLE, bytes, at, bytes.len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
}

/// The client's host vanished without a word, and came back on another connection.
#[tokio::test]
async fn a_newer_writer_takes_over_from_a_silent_one() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (checkpoint, session) = session(&server, 2).await;
    let bytes = checkpoint.file(SINGLE);
    let mut old = begin(&server, &session, 0, bytes, 150_000).await;
    written(&server, 150_000).await;

    // A guess at the offset is answered with the truth, which includes what the old writer had brought.
    let offset = api.offset(&session, SINGLE).await;
    let answer = api.patch(&session, SINGLE, offset, bytes[offset as usize..].to_vec()).await;
    answer.refused(409, "registry_upload_offset");
    assert_eq!(answer.header("upload-offset"), "150000");
    old.answer().await.unwrap().refused(409, "registry_upload_state");

    api.append(&session, SINGLE, bytes, 150_000, 300_000).await;
    // The old one wakes up; whatever it still sends goes nowhere.
    old.send(&[0xEE; 50_000]).await;
    assert_eq!(api.offset(&session, SINGLE).await, 300_000);
    api.append(&session, SINGLE, bytes, 300_000, bytes.len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
}

/// Many takeovers in a row, the silent writers all still connected.
#[tokio::test]
async fn only_the_newest_of_many_writers_writes() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (checkpoint, session) = session(&server, 3).await;
    let bytes = checkpoint.file(SINGLE);
    let mut silent = Vec::new();
    for step in 0..8 {
        let (from, to) = (step * 40_000, (step + 1) * 40_000);
        silent.push(begin(&server, &session, from, bytes, to).await);
        written(&server, to).await;
    }
    let last = silent.pop().unwrap();
    for mut old in silent {
        old.answer().await.unwrap().refused(409, "registry_upload_state");
        old.send(&[0xEE; 10_000]).await;
    }
    drop(last);
    until("the last writer's bytes", || async { (api.offset(&session, SINGLE).await == 320_000).then_some(()) }).await;
    api.append(&session, SINGLE, bytes, 320_000, bytes.len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
}

#[tokio::test]
async fn finish_and_delete_do_not_wait_for_a_silent_writer() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (checkpoint, session) = session(&server, 4).await;
    let bytes = checkpoint.file(SINGLE);
    let mut old = begin(&server, &session, 0, bytes, 200_000).await;
    written(&server, 200_000).await;
    let problem = api.finish(&session).await.refused(422, "checkpoint_integrity");
    assert_eq!(problem["fields"]["received"], 200_000);
    old.answer().await.unwrap().refused(409, "registry_upload_state");
    assert_eq!(api.offset(&session, SINGLE).await, 200_000);

    let mut old = begin(&server, &session, 200_000, bytes, 300_000).await;
    written(&server, 300_000).await;
    assert_eq!(api.delete(&session).await.status, 204);
    data::assert_nothing_left(server.dir(), "a session deleted under its writer").await;
    old.answer().await.unwrap().refused(409, "registry_upload_state");
    old.send(&bytes[300_000..]).await;
    data::assert_nothing_left(server.dir(), "a session deleted under its writer").await;
    api.store(&checkpoint).await;
}

/// An upload with a silent body is ended by the server, keeps what has arrived, and can be continued.
#[tokio::test]
async fn a_body_that_stands_still_is_ended_and_kept() {
    let mut setup = Setup::default();
    setup.service.body_idle = Duration::from_millis(300);
    let server = TestServer::start_with(setup).await;
    let api = &server.api;
    let (checkpoint, session) = session(&server, 5).await;
    let bytes = checkpoint.file(SINGLE);
    let mut client = begin(&server, &session, 0, bytes, 123_456).await;
    let answer = client.answer().await.unwrap();
    answer.refused(408, "registry_timeout");
    assert!(client.closed().await);
    assert_eq!(api.offset(&session, SINGLE).await, 123_456);
    api.append(&session, SINGLE, bytes, 123_456, bytes.len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
}

/// A stop lets a request in flight finish, and what is cut by it is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_middle_of_a_body_keeps_what_arrived() {
    let mut setup = Setup::default();
    setup.connections.grace = Duration::from_millis(300);
    let mut server = TestServer::start_with(setup).await;
    let (checkpoint, session) = session(&server, 6).await;
    let bytes = checkpoint.file(SINGLE);
    let client = begin(&server, &session, 0, bytes, 170_000).await;
    written(&server, 170_000).await;
    server.restart().await;
    drop(client);
    let api = &server.api;
    // The dropped request's worker may have saved just before the database was closed, or not at all.
    let stored = api.offset(&session, SINGLE).await as usize;
    assert!(stored == 0 || stored == 170_000, "{stored}");
    let answer = api.patch(&session, SINGLE, stored as u64, bytes[stored..].to_vec()).await;
    answer.expect(StatusCode::NO_CONTENT);
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
    data::assert_no_orphans(server.dir()).await;
}
