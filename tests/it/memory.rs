//! Large transfers take little memory in the server, alone and side by side.

use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::join_all;
use reqwest::{Body, StatusCode};
use sha2::{Digest, Sha256};

use crate::support::checkpoint::{SINGLE, hex};
use crate::support::client::{Api, send};
use crate::support::generated::Generated;
use crate::support::process::ServerProcess;

/// What the process may take at rest, and more for each transfer.
const AT_REST: u64 = 64 << 20;
const EACH: u64 = 16 << 20;

/// Downloads without keeping anything; the hash of what came.
async fn download(api: &Api, path: &str) -> String {
    let response = api.request(reqwest::Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let mut hasher = Sha256::new();
    let mut body = response.bytes_stream();
    while let Some(bytes) = body.next().await {
        hasher.update(bytes.unwrap());
    }
    hex(&hasher.finalize())
}

async fn upload(api: &Api, large: &Generated, by_session: bool) {
    let answer = if by_session {
        let session = api.session(&large.header).await;
        let sent = api.patch(&session, SINGLE, 0, Body::wrap_stream(large.file())).await;
        assert_eq!(sent.expect(StatusCode::NO_CONTENT).header("upload-offset"), large.file_len.to_string());
        api.finish(&session).await
    } else {
        api.put(&large.content_hash, Body::wrap_stream(large.tar())).await
    };
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
}

async fn check(server: &ServerProcess, large: &Generated) {
    let (api, path) = (&server.api, format!("/v1/artifacts/{}", large.content_hash));
    assert_eq!(download(api, &format!("{path}/files/{SINGLE}")).await, large.file_hash);
    assert_eq!(download(api, &format!("{path}/groups/encoder.safetensors")).await, large.group_hash);
}

fn assert_peak(server: &ServerProcess, transfers: u64, what: &str) {
    let peak = server.peak_memory();
    println!("{what}: {} MiB at most", peak >> 20);
    assert!(peak < AT_REST + transfers * EACH, "{what}: {} MiB", peak >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_checkpoint_goes_in_and_out_within_little_memory() {
    // Far more than the limits below; a gibibyte shows nothing else and takes four times as long.
    let large = Generated::new(1, 256);
    for by_session in [false, true] {
        let server = ServerProcess::start();
        let start = Instant::now();
        upload(&server.api, &large, by_session).await;
        println!("up, by session: {by_session}: {:?}", start.elapsed());
        assert_peak(&server, 1, "one upload");
        let start = Instant::now();
        check(&server, &large).await;
        println!("down, twice: {:?}", start.elapsed());
        assert_peak(&server, 1, "and downloads");
        let verify = server.api.request(reqwest::Method::POST, &format!("/v1/artifacts/{}/verify", large.content_hash));
        assert_eq!(send(verify).await.status, 200);
        assert_peak(&server, 1, "and a verification");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_transfers_at_once_take_four_times_the_little() {
    let server = ServerProcess::start();
    let all: Vec<_> = (2..6).map(|seed| Generated::new(seed, 96)).collect();
    join_all(all.iter().enumerate().map(|(number, large)| upload(&server.api, large, number % 2 == 0))).await;
    assert_peak(&server, 4, "four uploads");
    join_all(all.iter().map(|large| check(&server, large))).await;
    assert_peak(&server, 4, "and four downloads");
}

/// Readers cost less than writers, since files leave by the kernel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_one_file_share_it() {
    let server = ServerProcess::start();
    let large = Generated::new(7, 64);
    upload(&server.api, &large, false).await;
    join_all((0..12).map(|_| check(&server, &large))).await;
    assert_peak(&server, 4, "twelve readers of one artifact");
}
