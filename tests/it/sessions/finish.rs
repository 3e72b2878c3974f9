//! The end of a session: visible once and for all, refused for good, given up, or expired.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::json;

use crate::support::checkpoint::{CheckpointBuilder, SINGLE};
use crate::support::data;
use crate::support::raw::Raw;
use crate::support::server::{Setup, TestServer};
use crate::support::wait::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finish_can_be_repeated_and_raced() {
    let mut server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(1, 3_000_000, 9).shards(3).shuffled().build();
    let api = &server.api;
    let session = api.session(&checkpoint.header).await;
    for (name, bytes) in &checkpoint.files {
        api.append(&session, name, bytes, 0, bytes.len()).await;
    }
    let answers = join_all((0..8).map(|_| api.finish(&session))).await;
    let created = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
    assert!(answers.iter().all(|answer| answer.status.is_success()), "{answers:?}");
    assert_eq!(created, 1);
    for answer in &answers {
        assert_eq!(answer.header("location"), checkpoint.path());
        assert_eq!(answer.json()["content_hash"], checkpoint.content_hash.as_str());
    }
    server.restart().await;
    let api = &server.api;
    assert_eq!(api.finish(&session).await.status, 200);
    assert_eq!(api.get(&session).await.json()["state"], "finished");
    api.patch(&session, &checkpoint.files[0].0, 0, "x").await.refused(409, "registry_upload_state");
    api.delete(&session).await.refused(409, "registry_upload_state");
    api.check(&checkpoint).await;
}

#[tokio::test]
async fn an_incomplete_session_says_what_is_missing_and_stays_open() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::sized(2, 9_000, 9).shards(3).build();
    let session = api.session(&checkpoint.header).await;
    let names: Vec<&str> = checkpoint.files.iter().map(|(name, _)| name.as_str()).collect();
    let bytes = |index: usize| checkpoint.file(names[index]);
    let problem = api.finish(&session).await.refused(422, "checkpoint_integrity");
    assert_eq!(problem["fields"]["missing"], json!(names));
    api.append(&session, names[1], bytes(1), 0, bytes(1).len()).await;
    let problem = api.finish(&session).await.refused(422, "checkpoint_integrity");
    assert_eq!(problem["fields"]["missing"], json!([names[0], names[2]]));
    api.append(&session, names[0], bytes(0), 0, bytes(0).len()).await;
    for part in [3, 9, bytes(2).len() - 1] {
        api.append(&session, names[2], bytes(2), api.offset(&session, names[2]).await as usize, part).await;
        let problem = api.finish(&session).await.refused(422, "checkpoint_integrity");
        assert_eq!(problem["fields"]["file"], names[2]);
        assert_eq!(problem["fields"]["received"], part, "{problem}");
        assert!(problem["message"].as_str().unwrap().contains(&format!("received {part}")), "{problem}");
    }
    assert_eq!(api.get(&session).await.json()["state"], "open");
    api.get(&checkpoint.path()).await.refused(404, "registry_not_found");
    api.append(&session, names[2], bytes(2), bytes(2).len() - 1, bytes(2).len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
}

/// What is wrong with one shard by itself costs that shard, not the session.
#[tokio::test]
async fn a_refused_shard_alone_is_sent_again() {
    let mut server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(3, 60_000, 6).shards(2).build();
    let session = server.api.session(&checkpoint.header).await;
    let [(good, sound), (bad, right)] = &checkpoint.files[..] else { unreachable!() };
    server.api.append(&session, good, sound, 0, sound.len()).await;
    let mut longer = right.clone();
    longer.extend_from_slice(&[9, 7, 0x2F, 0]);
    let mut retyped = right.clone();
    let at = retyped.windows(3).position(|text| text == b"F32").unwrap();
    retyped[at..at + 3].copy_from_slice(b"I32");
    let zip = b"PK\x03\x04 what torch.save writes".to_vec();
    // The other shard's bytes: each tensor there lies in this file then too.
    for (wrong, status, code) in [
        (&longer, 422, "checkpoint_integrity"),
        (&retyped, 422, "artifact_invalid"),
        (&zip, 415, "checkpoint_integrity"),
        (sound, 422, "checkpoint_integrity"),
    ] {
        let api = &server.api;
        // What is refused at its end has been written before that, in part.
        let begun = if wrong.len() > right.len() { 20_000 } else { 0 };
        api.append(&session, bad, wrong, 0, begun).await;
        let answer = api.patch(&session, bad, begun as u64, wrong[begun..].to_vec()).await;
        answer.refused(status, code);
        assert_eq!((api.offset(&session, bad).await, api.offset(&session, good).await), (0, sound.len() as u64));
        assert_eq!(data::blobs(server.dir()).len(), 1, "the refused bytes are gone, the others are not");
        server.restart().await;
    }
    let api = &server.api;
    api.append(&session, bad, right, 0, right.len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
}

#[tokio::test]
async fn bytes_that_have_another_hash_end_the_session_and_are_dropped() {
    let mut server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(4, 20_000, 4).build();
    let session = server.api.session(&checkpoint.header).await;
    let mut wrong = checkpoint.file(SINGLE).to_vec();
    *wrong.last_mut().unwrap() ^= 1;
    server.api.append(&session, SINGLE, &wrong, 0, wrong.len()).await;
    let problem = server.api.finish(&session).await.refused(422, "checkpoint_integrity");
    assert_eq!(problem["fields"]["expected_hash"], checkpoint.content_hash.as_str());
    assert_ne!(problem["fields"]["got_hash"], checkpoint.content_hash.as_str());
    assert_eq!(problem["invariant"], "INV-CHECKPOINT-HASH");
    data::assert_nothing_left(server.dir(), "the refused session").await;
    assert_eq!(data::number(server.dir(), data::AUDITS).await, 1);

    // The reason can be read again, by those who did not hear it the first time.
    server.restart().await;
    let api = &server.api;
    let state = api.get(&session).await.json();
    assert_eq!((&state["state"], &state["problem"]["fields"]), (&json!("refused"), &problem["fields"]));
    assert_eq!(api.finish(&session).await.refused(422, "checkpoint_integrity")["fields"], problem["fields"]);
    api.patch(&session, SINGLE, 0, "x").await.refused(422, "checkpoint_integrity");
    assert_eq!(api.store_by_session(&checkpoint).await.status, 201);
}

#[tokio::test]
async fn a_session_can_be_given_up_once_and_again() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::sized(5, 20_000, 4).shards(2).build();
    let session = api.session(&checkpoint.header).await;
    let (name, bytes) = &checkpoint.files[0];
    api.append(&session, name, bytes, 0, 5000).await;
    for _ in 0..2 {
        assert_eq!(api.delete(&session).await.status, 204);
        data::assert_nothing_left(server.dir(), "the session that was given up").await;
    }
    api.patch(&session, name, 5000, bytes[5000..].to_vec()).await.refused(409, "registry_upload_state");
    api.finish(&session).await.refused(409, "registry_upload_state");
    assert_eq!(api.get(&session).await.json()["state"], "aborted");
    assert_eq!(api.store_by_session(&checkpoint).await.status, 201);
}

#[tokio::test]
async fn a_session_that_nobody_continues_expires_with_its_bytes() {
    let mut setup = Setup::default();
    setup.service.session_lifetime = Duration::from_millis(700);
    let server = TestServer::start_with(setup).await;
    let api = &server.api;
    let (left, kept) = (CheckpointBuilder::sized(6, 9_000, 2).build(), CheckpointBuilder::sized(7, 9_000, 2).build());
    let session = api.session(&left.header).await;
    api.append(&session, SINGLE, left.file(SINGLE), 0, 4000).await;
    api.store(&kept).await;
    until("the session to expire", || async { (api.get(&session).await.status == 404).then_some(()) }).await;
    api.patch(&session, SINGLE, 4000, "x").await.refused(404, "registry_not_found");
    api.finish(&session).await.refused(404, "registry_not_found");
    assert_eq!(server.registry().expire().await.unwrap(), 1);
    assert_eq!(server.registry().expire().await.unwrap(), 0);
    assert_eq!(data::number(server.dir(), "select count(*) from uploads").await, 0);
    assert_eq!(data::blobs(server.dir()).len(), 1);
    data::assert_no_orphans(server.dir()).await;
    api.check(&kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finish_goes_on_when_the_client_goes_away() {
    let server = TestServer::start().await;
    let api = &server.api;
    // Out of order, so that there is something to read back before the verdict.
    let checkpoint = CheckpointBuilder::sized(8, 12 << 20, 40).shards(2).shuffled().build();
    let session = api.session(&checkpoint.header).await;
    for (name, bytes) in &checkpoint.files {
        api.append(&session, name, bytes, 0, bytes.len()).await;
    }
    let mut client = Raw::connect(server.address()).await;
    client.send(format!("POST {session}/finish HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")).await;
    until("the server to begin", || async {
        let state = api.get(&session).await.json();
        (state["verifying_bytes"].is_u64() || state["state"] == "finished").then_some(())
    })
    .await;
    drop(client);
    until("the artifact", || async { (api.get(&checkpoint.path()).await.status == 200).then_some(()) }).await;
    assert_eq!(api.finish(&session).await.status, 200);
    api.check(&checkpoint).await;
}
