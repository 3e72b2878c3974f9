//! Coordinators that do not know of each other, and coordinators that repeat themselves.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::checkpoint::CheckpointBuilder;
use crate::support::client::{Answer, Api, send};
use crate::support::data;
use crate::support::history::{chain, commit_of, committed, made_up, record};
use crate::support::server::TestServer;

async fn commit_with(api: &Api, run: &str, key: &str, body: &Value) -> Answer {
    let request = api.post_request(&format!("/v1/runs/{run}/commits"), body.to_string());
    send(request.header("idempotency-key", key)).await
}

/// B8: of sixteen coordinators with sixteen results for one round, one wins; the others are told the head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_coordinators_wins() {
    let server = TestServer::start().await;
    let api = &server.api;
    let first = CheckpointBuilder::new(200).build();
    committed(api, "r", std::slice::from_ref(&first)).await;
    let rivals: Vec<_> = (201..217).map(|seed| CheckpointBuilder::new(seed).parent(&first, 1).build()).collect();
    for rival in &rivals {
        api.store(rival).await;
    }
    let answers = join_all(rivals.iter().map(async |rival| api.commit("r", &commit_of(rival, None)).await)).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == StatusCode::CREATED);
    assert_eq!((won.len(), lost.len()), (1, 15));
    let winner = won[0].json()["content_hash"].clone();
    for answer in lost {
        let problem = answer.refused(409, "agg_nondeterministic");
        assert_eq!(problem["fields"]["head_round"], 1, "{problem}");
        assert_eq!(problem["fields"]["head_content_hash"], winner, "{problem}");
    }
    let head = api.head_of("r").await;
    // Round 0 told one thing, round 1 two: checkpoint.committed and round.close.
    assert_eq!((&head["content_hash"], &head["round_index"], &head["event_id"]), (&winner, &json!(1), &json!(3)));
    assert_eq!(data::number(server.dir(), "select count(*) from rounds").await, 2);
    assert_eq!(data::number(server.dir(), "select count(*) from findings").await, 15);
}

/// B5: sixteen times the same commit at once is one round, one ledger record and one piece of news.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_commit_many_times_is_one_round() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(220, 2);
    committed(api, "r", &line[..1]).await;
    api.bound("r", "a", Some(0), &made_up("a")).await;
    api.store(&line[1]).await;
    let body = commit_of(&line[1], Some(record(0, &[("a", made_up("a"))], &line[1], None)));
    let answers = join_all((0..16).map(async |index: usize| match index % 2 {
        0 => api.commit("r", &body).await,
        _ => commit_with(api, "r", "one key", &body).await,
    }))
    .await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(200)), (1, 15));
    let told: BTreeSet<String> = answers.iter().map(Answer::text).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let head = api.head_of("r").await;
    assert_eq!((&head["ledger_count"], &head["event_id"]), (&json!(1), &json!(4)));
}

/// B8: a chain that many commit at once, each its own round, becomes a prefix of the chain and never anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds_that_race_each_other_enter_in_order() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(240, 8);
    api.register("r", json!({})).await;
    for checkpoint in &line {
        api.store(checkpoint).await;
    }
    let mut passes = 0;
    loop {
        let answers = join_all(line.iter().rev().map(async |one| api.commit("r", &commit_of(one, None)).await)).await;
        for answer in answers.iter().filter(|answer| !answer.status.is_success()) {
            assert_eq!(answer.refused(409, "round_failed")["fields"]["reason"], "unknown_parent");
        }
        let rounds = api.get("/v1/runs/r/rounds").await.json()["rounds"].as_array().unwrap().clone();
        for (round, told) in rounds.iter().rev().enumerate() {
            assert_eq!(told["content_hash"], line[round].content_hash.as_str());
        }
        passes += 1;
        assert!(rounds.len() >= passes, "a pass without progress");
        if rounds.len() == line.len() {
            break;
        }
    }
}

/// B5: a commit may be repeated at any time, with or without its record; another record for the same round is refused.
#[tokio::test]
async fn a_repeated_commit_is_a_success_for_ever() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(260, 3);
    committed(api, "r", &line[..1]).await;
    for name in ["a", "b"] {
        api.bound("r", name, Some(0), &made_up(name)).await;
    }
    for checkpoint in &line[1..] {
        api.store(checkpoint).await;
    }
    let body = commit_of(&line[1], Some(record(0, &[("a", made_up("a"))], &line[1], None)));
    let round = api.commit("r", &body).await.expect(StatusCode::CREATED).json();
    api.commit("r", &commit_of(&line[2], None)).await.expect(StatusCode::CREATED);
    let head = api.head_of("r").await;
    for again in [&body, &commit_of(&line[1], None)] {
        assert_eq!(api.commit("r", again).await.expect(StatusCode::OK).json(), round);
    }
    let other = commit_of(&line[1], Some(record(0, &[("b", made_up("b"))], &line[1], None)));
    let late = commit_of(&line[2], Some(record(1, &[("b", made_up("b"))], &line[2], round["record_hash"].as_str())));
    for body in [other, late] {
        let problem = api.commit("r", &body).await.refused(409, "provenance_failed");
        assert_eq!(problem["fields"]["cause"], "other_record", "{problem}");
    }
    assert_eq!(api.head_of("r").await, head);
}

/// B5: an Idempotency-Key means one request of one run, also after a restart.
#[tokio::test]
async fn a_key_means_one_commit() {
    let mut server = TestServer::start().await;
    let line = chain(280, 2);
    committed(&server.api, "r", &line[..1]).await;
    committed(&server.api, "s", &line[..1]).await;
    server.api.store(&line[1]).await;
    let (first, next) = (commit_of(&line[0], None), commit_of(&line[1], None));
    let round = commit_with(&server.api, "r", "k", &next).await.expect(StatusCode::CREATED).json();
    server.restart().await;
    let api = &server.api;
    assert_eq!(commit_with(api, "r", "k", &next).await.expect(StatusCode::OK).json(), round);
    // The key of a repeated commit is taken too.
    assert_eq!(commit_with(api, "r", "k0", &first).await.status, StatusCode::OK);
    for (key, body) in [("k", &first), ("k0", &next)] {
        let problem = commit_with(api, "r", key, body).await.refused(409, "registry_conflict");
        assert_eq!(problem["fields"]["key"], "idempotency-key", "{problem}");
    }
    // Another run, another name; a refused commit has not used its key.
    commit_with(api, "s", "k", &next).await.expect(StatusCode::CREATED);
    let mut wrong = next.clone();
    wrong["round_index"] = json!(7);
    commit_with(api, "r", "k2", &wrong).await.refused(409, "round_failed");
    assert_eq!(commit_with(api, "r", "k2", &next).await.status, StatusCode::OK);
    for key in ["", &"k".repeat(256), "a\tb", "é"] {
        commit_with(api, "r", key, &next).await.refused(400, "config_invalid");
    }
    assert_eq!(commit_with(api, "r", &"k".repeat(255), &next).await.status, StatusCode::OK);
}
