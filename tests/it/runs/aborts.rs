//! Rounds that are given up and tried again.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::checkpoint::{CheckpointBuilder, SINGLE};
use crate::support::client::{Answer, Api, send};
use crate::support::data;
use crate::support::history::{chain, commit_of, committed};
use crate::support::server::TestServer;

async fn abort_with(api: &Api, key: &str, body: &Value) -> Answer {
    send(api.post_request("/v1/runs/r/aborts", body.to_string()).header("idempotency-key", key)).await
}

/// B9: what was staged for the next round is gone, the head is as it was, and the same round is tried again.
#[tokio::test]
async fn an_aborted_round_is_tried_again() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(300, 2);
    committed(api, "r", &line[..1]).await;
    let before = api.get("/v1/runs/r/head").await;
    let staged = api.session(&line[1].header).await;
    api.append(&staged, SINGLE, line[1].file(SINGLE), 0, 100).await;
    // A session for another place is nobody's business here.
    let elsewhere = CheckpointBuilder::new(310).build();
    let other = api.session(&elsewhere.header).await;
    assert_eq!(api.head_of("r").await["open_sessions"][0]["url"], staged.as_str());

    let body = json!({"round_index": 0, "reason_code": "aggregation_failed", "detail": "two of four answered"});
    let told = api.abort("r", &body).await.expect(StatusCode::CREATED).json();
    assert_eq!((&told["round_index"], &told["attempt"]), (&json!(0), &json!(1)));
    let after = api.get("/v1/runs/r/head").await;
    assert_eq!(after.header("etag"), before.header("etag"));
    let (before, after) = (before.json(), after.json());
    for field in ["round_index", "content_hash", "ledger_tail", "ledger_count"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!((&after["attempt"], &after["open_sessions"]), (&json!(2), &json!([])));
    assert_eq!(api.get(&staged).await.json()["state"], "aborted");
    assert_eq!(api.get(&other).await.json()["state"], "open");
    assert_eq!(data::number(server.dir(), data::STAGED).await, 0);
    data::assert_no_orphans(server.dir()).await;

    api.store_by_session(&line[1]).await.expect(StatusCode::CREATED);
    let round = api.commit("r", &commit_of(&line[1], None)).await.expect(StatusCode::CREATED).json();
    assert_eq!(round["attempt"], 2);
    assert_eq!(api.head_of("r").await["attempt"], 1);
    let list = api.get("/v1/runs/r/aborts").await.expect(StatusCode::OK).json();
    assert_eq!(list, json!({"aborts": [told], "next_cursor": null}));
}

/// B9: only the round that is open can be given up, and only for a reason that there is.
#[tokio::test]
async fn only_the_open_round_is_aborted() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("empty", json!({})).await;
    let abort = |round: u64| json!({"round_index": round, "reason_code": "gauge_failed"});
    api.abort("empty", &abort(0)).await.refused(409, "round_failed");
    api.abort("nowhere", &abort(0)).await.refused(404, "registry_not_found");
    let line = chain(320, 2);
    committed(api, "r", &line).await;
    for round in [0, 2, u64::MAX] {
        let problem = api.abort("r", &abort(round)).await.refused(409, "round_failed");
        assert_eq!(problem["fields"]["reason"], "round_not_open", "{problem}");
        assert_eq!(problem["fields"]["head_round"], 1, "{problem}");
    }
    for body in [
        json!({"round_index": 1, "reason_code": "because"}),
        json!({"round_index": 1}),
        json!({"round_index": -1, "reason_code": "gauge_failed"}),
        json!({"round_index": 1, "reason_code": "gauge_failed", "more": 1}),
        json!({"round_index": 1, "reason_code": "gauge_failed", "detail": "x".repeat(4097)}),
        json!({"round_index": 1, "reason_code": "gauge_failed", "detail": "a\0b"}),
    ] {
        api.abort("r", &body).await.refused(400, "config_invalid");
    }
    assert_eq!(api.get("/v1/runs/r/aborts").await.json(), json!({"aborts": [], "next_cursor": null}));
    // Each of the codes is a reason, the relayed ones above all.
    for code in ["frame_drift_exceeded", "procrustes_degenerate", "secure_agg_failed", "dp_budget_exceeded", "internal"]
    {
        api.abort("r", &json!({"round_index": 1, "reason_code": code})).await.expect(StatusCode::CREATED);
    }
    assert_eq!(api.head_of("r").await["attempt"], 6);
    // Page by page: none is lost, none comes twice.
    let (mut attempts, mut path) = (Vec::new(), "/v1/runs/r/aborts?limit=2".to_owned());
    loop {
        let page = api.get(&path).await.expect(StatusCode::OK).json();
        attempts.extend(page["aborts"].as_array().unwrap().iter().map(|abort| abort["attempt"].as_u64().unwrap()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/runs/r/aborts?limit=2&cursor={cursor}");
    }
    assert_eq!(attempts, [5, 4, 3, 2, 1]);
    for query in ["limit=0", "limit=1001", "cursor=x", "limit=1&limit=1"] {
        api.get(&format!("/v1/runs/r/aborts?{query}")).await.refused(400, "config_invalid");
    }
}

/// B5, B9: a key means one abort, and is another name than the same key of a commit.
#[tokio::test]
async fn a_key_means_one_abort() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(340, 2);
    committed(api, "r", &line[..1]).await;
    let body = json!({"round_index": 0, "reason_code": "aggregation_failed", "detail": "a"});
    let told = abort_with(api, "k", &body).await.expect(StatusCode::CREATED).json();
    assert_eq!(abort_with(api, "k", &body).await.json(), told);
    for (field, value) in [
        ("detail", json!("b")),
        ("detail", Value::Null),
        ("reason_code", json!("gauge_failed")),
        ("round_index", json!(1)),
    ] {
        let mut other = body.clone();
        other[field] = value;
        abort_with(api, "k", &other).await.refused(409, "registry_conflict");
    }
    api.store(&line[1]).await;
    for key in ["k", "abort k"] {
        let request = api.post_request("/v1/runs/r/commits", commit_of(&line[1], None).to_string());
        assert!(send(request.header("idempotency-key", key)).await.status.is_success(), "{key}");
    }
    // The abort of a round that is long over is still the same one.
    assert_eq!(abort_with(api, "k", &body).await.json(), told);
    assert_eq!(api.head_of("r").await["attempt"], 1);
}

/// G7 where it meets aborts: a detail with a secret is refused, kept nowhere, and repeated nowhere.
#[tokio::test]
async fn details_hold_no_secrets() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(360, 1)).await;
    let planted = [
        "sk-hunter2hunter2",
        "hf_hunter2hunter2",
        "AKIAHUNTER2HUNTER222",
        "-----BEGIN PRIVATE KEY----- hunter2",
        "password = hunter2",
        "the token: hunter2",
    ];
    for secret in planted {
        let body = json!({"round_index": 0, "reason_code": "internal", "detail": format!("it failed: {secret}")});
        let answer = api.abort("r", &body).await;
        let problem = answer.refused(422, "residency_violation");
        assert!(!answer.text().to_lowercase().contains("hunter2"), "{problem}");
    }
    let bulk = (0..65).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    let body = json!({"round_index": 0, "reason_code": "internal", "detail": bulk});
    let problem = api.abort("r", &body).await.refused(422, "residency_violation");
    assert_eq!(problem["fields"]["count"], 65, "{problem}");
    assert_eq!(api.head_of("r").await["attempt"], 1);
    let records = data::texts(server.dir(), "select code || ' ' || detail from audit_records").await;
    assert_eq!(records.len(), planted.len() + 1);
    assert!(records.iter().all(|record| record.starts_with("residency_violation")), "{records:?}");
    assert!(!records.iter().any(|record| record.to_lowercase().contains("hunter2")), "{records:?}");
}
