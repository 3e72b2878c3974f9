//! Long polls at the head: they return when it changes, and nothing is lost between looking and listening.

use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::client::{Answer, Api, send};
use crate::support::golden::bytes;
use crate::support::history::{chain, commit_of, committed};
use crate::support::server::TestServer;
use crate::support::wait::{PATIENCE, soon};

async fn wait(api: &Api, run: &str, known: &str, wait: &str) -> Answer {
    let request = api.request(Method::GET, &format!("/v1/runs/{run}/head?wait={wait}"));
    soon("the head", send(request.header("if-none-match", known))).await
}

async fn tag(api: &Api, run: &str) -> String {
    api.get(&format!("/v1/runs/{run}/head")).await.expect(StatusCode::OK).header("etag").to_owned()
}

/// C9: a wait ends with the commit, not with its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_ends_every_wait() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(400, 2);
    committed(api, "r", &line[..1]).await;
    api.store(&line[1]).await;
    let known = tag(api, "r").await;
    let begun = Instant::now();
    let waiters = join_all((0..32).map(async |_| wait(api, "r", &known, "60s").await));
    let (answers, committed) = join(waiters, api.commit("r", &commit_of(&line[1], None))).await;
    committed.expect(StatusCode::CREATED);
    assert!(begun.elapsed() < PATIENCE / 2, "the waits ended by their time");
    for answer in answers {
        let head = answer.expect(StatusCode::OK);
        assert_ne!(head.header("etag"), known);
        assert_eq!(head.json()["content_hash"], line[1].content_hash.as_str());
    }
}

/// C9: followers that always wait for the next head see the last one, however looks and commits fall together. A
/// wake-up that is lost would hold a follower for the whole of its wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_lose_no_round_between_look_and_wait() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(420, 24);
    committed(api, "r", &line[..1]).await;
    for checkpoint in &line[1..] {
        api.store(checkpoint).await;
    }
    let last = line.len() as u64 - 1;
    let followers = join_all((0..8).map(async |_| {
        let (mut known, mut seen) = (String::from("\"none\""), 0);
        while seen < last {
            let answer = wait(api, "r", &known, "60s").await.expect(StatusCode::OK);
            let round = answer.json()["round_index"].as_u64().unwrap();
            assert!(round >= seen, "a head went back from {seen} to {round}");
            (known, seen) = (answer.header("etag").to_owned(), round);
        }
    }));
    // Lookers without patience keep writing heads into the server's memory meanwhile.
    let lookers = join_all((0..4).map(async |_| while api.head_of("r").await["round_index"] != last {}));
    let commits = async {
        for checkpoint in &line[1..] {
            api.commit("r", &commit_of(checkpoint, None)).await.expect(StatusCode::CREATED);
        }
    };
    soon("the followers", join(join(followers, lookers), commits)).await;
}

/// C9: the tag is the same as long as the head is; a wait that sees nothing ends as 304.
#[tokio::test]
async fn the_tag_changes_with_the_head_alone() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    let none = tag(api, "r").await;
    let line = chain(460, 2);
    let unchanged = async |known: &str| {
        for patience in ["0", "20ms"] {
            let answer = wait(api, "r", known, patience).await;
            assert_eq!((answer.status, answer.body.len()), (StatusCode::NOT_MODIFIED, 0));
            assert_eq!(answer.header("etag"), known);
        }
    };
    unchanged(&none).await;
    api.store(&line[0]).await;
    api.commit("r", &commit_of(&line[0], None)).await.expect(StatusCode::CREATED);
    let zero = tag(api, "r").await;
    assert_ne!(zero, none);
    // Sessions, aborts, commitments and documents leave the head what it is.
    let session = api.session(&line[1].header).await;
    unchanged(&zero).await;
    api.delete(&session).await.expect(StatusCode::NO_CONTENT);
    api.abort("r", &json!({"round_index": 0, "reason_code": "internal"})).await.expect(StatusCode::CREATED);
    api.bound("r", "p", None, &"ab".repeat(32)).await;
    unchanged(&zero).await;
    // Strong or weak, one of several or any: a head that is known is known.
    let bare = zero.strip_prefix("W/").unwrap();
    for known in [bare, &format!("\"x\", {zero}"), "*"] {
        let answer = api.get_with("/v1/runs/r/head", "if-none-match", known).await;
        assert_eq!(answer.status, StatusCode::NOT_MODIFIED, "{known}");
    }
    // A wait without a tag has nothing to wait for.
    let head = soon("the head", api.get("/v1/runs/r/head?wait=60s")).await.expect(StatusCode::OK);
    assert_eq!(head.json()["round_index"], 0);
    for wait in ["x", "1h", "-1", "1.5s", "s", "99999999999999999999s", "1s&wait=2s"] {
        api.get(&format!("/v1/runs/r/head?wait={wait}")).await.refused(400, "config_invalid");
    }
    api.get("/v1/runs/nowhere/head?wait=60s").await.refused(404, "registry_not_found");
}

/// C9, D13: whoever waits for the seed of a round is told when the manifest that implies it is here.
#[tokio::test]
async fn the_seed_of_a_round_ends_a_wait_too() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(480, 1)).await;
    let known = tag(api, "r").await;
    assert_eq!(api.head_of("r").await["sketch_seed"], Value::Null);
    let manifest = api.keep("r", "run-manifest", bytes("run/run_manifest.json"));
    let (answer, kept) = join(wait(api, "r", &known, "60s"), manifest).await;
    kept.expect(StatusCode::CREATED);
    assert_eq!(answer.expect(StatusCode::OK).json()["sketch_seed"], 535_438_800_219_513_776_u64);
}

/// A server that stops lets nobody wait, and waits for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_the_waits() {
    let mut server = TestServer::start().await;
    committed(&server.api, "r", &chain(490, 1)).await;
    let known = tag(&server.api, "r").await;
    let api = server.api.clone();
    let waiter = tokio::spawn(async move { wait(&api, "r", &known, "60s").await });
    // The waiter is there once it has been counted among those who are told.
    let begun = Instant::now();
    let registry = server.registry().clone();
    crate::support::wait::until("the waiter", || async { (registry.waiting_for_news() > 0).then_some(()) }).await;
    server.stop().await;
    let answer = waiter.await.unwrap();
    assert_eq!(answer.status, StatusCode::NOT_MODIFIED);
    assert!(begun.elapsed() < Duration::from_secs(50));
}
