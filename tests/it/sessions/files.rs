//! Files in any order, at the same time, unknown ones, and bytes that many send at once.

use std::sync::Arc;

use futures_util::future::join_all;
use reqwest::StatusCode;

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, INDEX, SINGLE};
use crate::support::client::Api;
use crate::support::data;
use crate::support::rng::Rng;
use crate::support::server::TestServer;

/// Sends one file in random cuts.
async fn send_in_cuts(api: &Api, session: &str, name: &str, bytes: &[u8], mut rng: Rng) {
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes.len().min(at + rng.between(1, bytes.len() as u64) as usize);
        api.append(session, name, bytes, at, end).await;
        at = end;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_arrive_forwards_backwards_and_in_parallel() {
    let server = TestServer::start().await;
    let api = &server.api;
    for seed in 0..12 {
        let checkpoint = match seed {
            0..4 => CheckpointBuilder::sized(seed, 300_000, 9).shards(4).index().build(),
            4..8 => CheckpointBuilder::sized(seed, 300_000, 9).shards(3).shuffled().build(),
            _ => CheckpointBuilder::random(seed).build(),
        };
        let session = api.session(&checkpoint.header).await;
        let mut files: Vec<_> = checkpoint.files.iter().collect();
        if seed % 4 == 1 {
            files.reverse();
        } else if seed % 4 == 2 {
            Rng::new(seed).shuffle(&mut files);
        }
        let sends = files.into_iter().map(|(name, bytes)| send_in_cuts(api, &session, name, bytes, Rng::new(seed)));
        if seed % 4 == 3 {
            join_all(sends).await;
        } else {
            for send in sends {
                send.await;
            }
        }
        assert_eq!(api.finish(&session).await.status, 201, "seed {seed}");
        api.check(&checkpoint).await;
    }
    data::assert_no_orphans(server.dir()).await;
}

#[tokio::test]
async fn files_that_the_header_does_not_list_are_refused() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(1).build();
    let session = api.session(&checkpoint.header).await;
    for name in ["weights.bin", "notes.txt", "weights-00000-of-00002.safetensors", "header.json", "..", "%2e%2e%2fx"] {
        if name != ".." {
            let problem = api.patch(&session, name, 0, "x").await.refused(422, "checkpoint_integrity");
            assert!(problem["remediation"].as_str().unwrap().contains("weight_files"), "{problem}");
            assert_eq!(api.head(&format!("{session}/files/{name}")).await.status, 404);
        }
    }
    // An index beside a single file is legal, and is compared with what the file holds.
    let index = CheckpointBuilder::new(1).index().build();
    api.append(&session, INDEX, index.file(INDEX), 0, index.file(INDEX).len()).await;
    api.append(&session, SINGLE, checkpoint.file(SINGLE), 0, checkpoint.file(SINGLE).len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&index).await;
}

#[tokio::test]
async fn what_is_no_session_is_not_found() {
    let server = TestServer::start().await;
    let api = &server.api;
    for id in ["0".repeat(32), "f".repeat(32), "F".repeat(32), "x".to_owned(), "%00".to_owned(), "0".repeat(4000)] {
        let session = format!("/v1/uploads/{id}");
        api.get(&session).await.refused(404, "registry_not_found");
        api.delete(&session).await.refused(404, "registry_not_found");
        api.finish(&session).await.refused(404, "registry_not_found");
        api.patch(&session, SINGLE, 0, "x").await.refused(404, "registry_not_found");
        assert_eq!(api.head(&format!("{session}/files/{SINGLE}")).await.status, 404);
    }
}

#[tokio::test]
async fn two_sessions_of_the_same_bytes_do_not_disturb_each_other() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::sized(6, 50_000, 5).build();
    let bytes = checkpoint.file(SINGLE);
    let (one, two) = (api.session(&checkpoint.header).await, api.session(&checkpoint.header).await);
    assert_ne!(one, two);
    api.append(&one, SINGLE, bytes, 0, 20_000).await;
    api.append(&two, SINGLE, bytes, 0, 30_000).await;
    api.append(&one, SINGLE, bytes, 20_000, bytes.len()).await;
    assert_eq!(api.finish(&one).await.status, 201);
    assert_eq!(api.offset(&two, SINGLE).await, 30_000);
    api.append(&two, SINGLE, bytes, 30_000, bytes.len()).await;
    assert_eq!(api.finish(&two).await.status, 200);
    api.check(&checkpoint).await;
    assert_eq!(data::blobs(server.dir()).len(), 1);
    data::assert_no_orphans(server.dir()).await;
}

/// The bytes of a frozen encoder's shard are kept once, whoever brings them.
#[tokio::test]
async fn artifacts_that_share_a_file_share_its_blob() {
    let server = TestServer::start().await;
    let api = &server.api;
    let first = CheckpointBuilder::sized(7, 40_000, 8).shards(2).build();
    let second = CheckpointBuilder::sized(7, 40_000, 8).shards(2).parent(&first, 1).build();
    assert_ne!(first.content_hash, second.content_hash);
    api.store(&first).await;
    assert_eq!(api.store_by_session(&second).await.status, 201);
    assert_eq!(data::blobs(server.dir()).len(), 2);
    api.check(&first).await;
    api.check(&second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_uploads_of_the_same_bytes_at_once_all_succeed() {
    let server = TestServer::start().await;
    let checkpoint = Arc::new(CheckpointBuilder::sized(8, 600_000, 6).shards(2).shuffled().build());
    let push = |by_session: bool| {
        let (api, checkpoint): (Api, Arc<Checkpoint>) = (server.api.clone(), Arc::clone(&checkpoint));
        tokio::spawn(async move {
            if by_session { api.store_by_session(&checkpoint).await } else { api.push(&checkpoint).await }
        })
    };
    let answers: Vec<_> = join_all((0..20).map(|number| push(number % 2 == 0))).await;
    let statuses: Vec<StatusCode> = answers.into_iter().map(|answer| answer.unwrap().status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::CREATED).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::OK).count(), 19, "{statuses:?}");
    server.api.check(&checkpoint).await;
    data::assert_no_orphans(server.dir()).await;
    assert_eq!(data::blobs(server.dir()).len(), 2);
}
