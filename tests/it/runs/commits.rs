//! What may become the next round of a run, and what a commit leaves when it may not.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, Dtype, sha256};
use crate::support::client::{Answer, Api, send};
use crate::support::data;
use crate::support::history::{chain, commit_of, committed, made_up};
use crate::support::server::TestServer;

/// Everything that a run shows, to be compared before and after.
async fn shown(api: &Api, run: &str) -> Vec<Value> {
    let mut all = vec![api.head_of(run).await];
    for part in ["", "/rounds", "/documents", "/commitments", "/aborts"] {
        all.push(api.get(&format!("/v1/runs/{run}{part}")).await.expect(StatusCode::OK).json());
    }
    all.push(json!(api.ledger(run).await));
    all
}

async fn refused(api: &Api, run: &str, body: &Value, status: u16, code: &str, reason: &str) -> Value {
    let before = shown(api, run).await;
    let problem = api.commit(run, body).await.refused(status, code);
    assert_eq!(problem["fields"]["reason"], reason, "{problem}");
    assert_eq!(shown(api, run).await, before, "{problem}");
    problem
}

/// B2: while a checkpoint comes in, and when it is there and not committed, the head is the old one.
#[tokio::test]
async fn nothing_is_visible_before_the_commit() {
    let server = TestServer::start().await;
    let api = &server.api;
    let chain = chain(10, 2);
    committed(api, "r", &chain[..1]).await;
    let (first, next) = (&chain[0], &chain[1]);
    let before = api.get("/v1/runs/r/head").await;
    let unchanged = async || {
        let head = api.get("/v1/runs/r/head").await;
        assert_eq!(head.header("etag"), before.header("etag"));
        assert_eq!(head.json()["content_hash"], first.content_hash.as_str());
        api.get("/v1/runs/r/rounds/1").await.refused(404, "registry_not_found");
    };
    let session = api.session(&next.header).await;
    for (name, data) in &next.files {
        for (from, end) in [(0, data.len() / 2), (data.len() / 2, data.len())] {
            api.append(&session, name, data, from, end).await;
            unchanged().await;
            api.get(&next.path()).await.refused(404, "registry_not_found");
        }
    }
    api.finish(&session).await.expect(StatusCode::CREATED);
    unchanged().await;
    // The commit may also finish the session itself; it has ended already, so this is a repetition.
    let mut body = commit_of(next, None);
    body["upload"] = json!(session.rsplit('/').next().unwrap());
    let round = api.commit("r", &body).await.expect(StatusCode::CREATED).json();
    assert_eq!(api.head_of("r").await["content_hash"], next.content_hash.as_str());
    assert_eq!(api.get("/v1/runs/r/rounds/1").await.json(), round);
}

/// B2: a commit that names an open session finishes it; when that fails nothing is committed.
#[tokio::test]
async fn a_commit_finishes_the_session_that_it_names() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(12).build();
    api.register("r", json!({})).await;
    let session = api.session(&checkpoint.header).await;
    let mut body = commit_of(&checkpoint, None);
    body["upload"] = json!(session.rsplit('/').next().unwrap());
    api.commit("r", &body).await.refused(422, "checkpoint_integrity");
    assert_eq!(api.head_of("r").await["round_index"], Value::Null);
    for (name, data) in &checkpoint.files {
        api.append(&session, name, data, 0, data.len()).await;
    }
    assert_eq!(api.head_of("r").await["open_sessions"][0]["url"], session.as_str());
    api.commit("r", &body).await.expect(StatusCode::CREATED);
    assert_eq!(api.commit("r", &body).await.status, StatusCode::OK);
    api.check(&checkpoint).await;
}

/// B4, B6: what has a hash never changes. A second header under one hash is the stored one where only `created_at`
/// differs, and a conflict where it is about something else; a round is never committed anew with other weights.
#[tokio::test]
async fn nothing_overwrites_what_is_committed() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(14).build();
    committed(api, "r", std::slice::from_ref(&checkpoint)).await;
    let later = CheckpointBuilder::new(14).set("created_at", "2027-01-01T00:00:00Z").build();
    assert_eq!(later.content_hash, checkpoint.content_hash);
    assert_eq!(
        api.push(&later).await.expect(StatusCode::OK).json()["header"]["created_at"],
        "2026-06-11T09:48:18.123690Z"
    );
    let other = CheckpointBuilder::new(14).set("config_hash", made_up("other")).build();
    let problem = api.push(&other).await.refused(409, "checkpoint_integrity");
    assert_eq!(problem["fields"]["differing_fields"], json!(["config_hash"]));
    api.check(&checkpoint).await;
    assert_eq!(api.commit("r", &commit_of(&checkpoint, None)).await.status, StatusCode::OK);

    let rival = CheckpointBuilder::new(15).build();
    api.store(&rival).await;
    refused(api, "r", &commit_of(&rival, None), 409, "agg_nondeterministic", "fork").await;
    for method in [reqwest::Method::PUT, reqwest::Method::DELETE, reqwest::Method::PATCH] {
        for path in ["/v1/runs/r", "/v1/runs/r/rounds/0", "/v1/runs/r/head", "/v1/runs/r/ledger"] {
            send(api.request(method.clone(), path)).await.refused(405, "registry_method");
        }
    }
}

/// B7: an encoder that stays as it is, in shards of its own, is stored once over three rounds.
#[tokio::test]
async fn a_frozen_encoder_is_stored_once() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    let mut chain: Vec<Checkpoint> = Vec::new();
    for round in 0..3_u64 {
        // The encoder follows from the seed, the predictor from the round: its length of zeros moves the numbers.
        let builder = CheckpointBuilder::empty(7).tensor("encoder.w", Dtype::F32, &[4096]).shards(2);
        let builder = (0..round).fold(builder, |builder, _| builder.skip(1));
        let builder = builder.tensor("predictor.w", Dtype::F32, &[64]);
        let builder = match chain.last() {
            Some(parent) => builder.parent(parent, round),
            None => builder,
        };
        let checkpoint = builder.build();
        api.store(&checkpoint).await;
        api.commit("r", &commit_of(&checkpoint, None)).await.expect(StatusCode::CREATED);
        chain.push(checkpoint);
    }
    let theta = sha256(&chain[0].groups[0].1);
    assert_eq!(data::number(server.dir(), data::BLOB_ROWS).await, 4);
    assert_eq!(data::blobs(server.dir()).len(), 4);
    for (round, checkpoint) in chain.iter().enumerate() {
        let told = api.get(&format!("/v1/runs/r/rounds/{round}")).await.json();
        assert_eq!(told["theta_ref"]["content_hash"], theta.as_str());
        // The locator of each round is answered with that round, though all of them hold the same encoder.
        let locator = told["theta_ref"]["locator"].as_str().unwrap();
        let resolved = api.get(&format!("/v1/runs/r/resolve?locator={locator}")).await.json();
        assert_eq!((&resolved["round_index"], &resolved["group"]), (&json!(round), &json!("encoder")));
        assert_eq!(resolved["artifact"], checkpoint.content_hash.as_str());
    }
    let newest = api.get(&format!("/v1/runs/r/resolve?content_hash={theta}")).await.json();
    assert_eq!((&newest["round_index"], &newest["group"]), (&json!(2), &json!("encoder")));
    for checkpoint in &chain {
        api.check(checkpoint).await;
    }
}

/// D2, D3, D4: every way in which a checkpoint is not the one that follows; nothing changes and the head is told.
#[tokio::test]
async fn only_the_child_of_the_head_follows_it() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(20, 3);
    committed(api, "r", &line[..2]).await;
    let head = |problem: &Value| {
        assert_eq!(problem["fields"]["head_round"], 1, "{problem}");
        assert_eq!(problem["fields"]["head_content_hash"], line[1].content_hash.as_str(), "{problem}");
    };
    let new = |seed| CheckpointBuilder::new(seed);
    let cases = [
        (new(30).set("parent_hash", made_up("nobody")).set("round_index", 2), "round_failed", "unknown_parent"),
        (new(31).parent(&line[1], 3), "round_failed", "round_not_parent_plus_one"),
        (new(32).parent(&line[1], 1), "round_failed", "round_not_parent_plus_one"),
        (new(33).parent(&line[1], 0), "round_failed", "round_zero_with_parent"),
        (new(34).set("round_index", 2), "round_failed", "missing_parent"),
        (new(35), "agg_nondeterministic", "fork"),
        (new(36).parent(&line[0], 1), "agg_nondeterministic", "fork"),
        (new(37).parent(&line[0], 2), "round_failed", "round_not_parent_plus_one"),
        (new(38).parent(&line[1], 2).set("wmcp_version", "wmcp-9"), "wmcp_contract_violation", "wmcp_changed"),
        (
            new(39).parent(&line[1], 2).tensor("predictor.more", Dtype::F32, &[1]),
            "checkpoint_integrity",
            "structure_changed",
        ),
        (new(40).parent(&line[1], 1 << 31), "round_failed", "round_too_large"),
    ];
    for (builder, code, reason) in cases {
        let checkpoint = builder.build();
        api.store(&checkpoint).await;
        head(&refused(api, "r", &commit_of(&checkpoint, None), 409, code, reason).await);
    }
    // What the caller says must be what the header says, whatever the head is.
    api.store(&line[2]).await;
    for (field, value, reason) in [
        ("round_index", json!(1), "round_differs_from_header"),
        ("round_index", json!(u64::MAX), "round_differs_from_header"),
        ("parent_hash", Value::Null, "parent_differs_from_header"),
        ("parent_hash", json!(line[0].content_hash), "parent_differs_from_header"),
    ] {
        let mut body = commit_of(&line[2], None);
        body[field] = value;
        refused(api, "r", &body, 409, "round_failed", reason).await;
    }
    api.commit("r", &commit_of(&line[2], None)).await.expect(StatusCode::CREATED);
}

/// D5: round 0 begins with the pinned encoder; the predictor is free.
#[tokio::test]
async fn round_zero_begins_with_the_pinned_encoder() {
    let server = TestServer::start().await;
    let api = &server.api;
    let encoder = |seed| CheckpointBuilder::empty(seed).tensor("encoder.w", Dtype::F32, &[8]);
    let pinned = encoder(1).tensor("predictor.w", Dtype::F32, &[4]).build();
    let theta = sha256(&pinned.groups[0].1);
    for run in ["a", "b"] {
        api.register(run, json!({"warm_start": {"release": "v", "encoder_group_hash": theta}})).await;
    }
    let other = encoder(2).tensor("predictor.w", Dtype::F32, &[4]).build();
    let none = CheckpointBuilder::empty(3).tensor("predictor.w", Dtype::F32, &[4]).build();
    for (wrong, got) in [(&other, sha256(&other.groups[0].1)), (&none, String::new())] {
        api.store(wrong).await;
        let problem =
            refused(api, "a", &commit_of(wrong, None), 409, "checkpoint_integrity", "warm_start_differs").await;
        assert_eq!(problem["invariant"], "INV-WARMSTART-T0");
        assert_eq!((&problem["fields"]["expected_hash"], &problem["fields"]["got_hash"]), (&json!(theta), &json!(got)));
    }
    let free = encoder(1).skip(1).tensor("predictor.w", Dtype::F32, &[4]).build();
    assert_ne!(free.groups[1], pinned.groups[1]);
    for (run, right) in [("a", &pinned), ("b", &free)] {
        api.store(right).await;
        api.commit(run, &commit_of(right, None)).await.expect(StatusCode::CREATED);
    }
}

/// D1: the pinned configuration is the one of every checkpoint.
#[tokio::test]
async fn checkpoints_carry_the_pinned_configuration() {
    let server = TestServer::start().await;
    let api = &server.api;
    let config = made_up("config");
    api.register("r", json!({"config_hash": config})).await;
    let (wrong, right) =
        (CheckpointBuilder::new(50).build(), CheckpointBuilder::new(51).set("config_hash", config.as_str()).build());
    for checkpoint in [&wrong, &right] {
        api.store(checkpoint).await;
    }
    let problem = refused(api, "r", &commit_of(&wrong, None), 409, "config_invalid", "config_changed").await;
    assert_eq!(problem["fields"]["expected"], config.as_str());
    api.commit("r", &commit_of(&right, None)).await.expect(StatusCode::CREATED);
}

/// D6: a second result for one round is told apart from an error of order, witnessed, and kept once for the audit.
#[tokio::test]
async fn two_stories_of_one_round_leave_a_finding() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(60, 2);
    committed(api, "r", &line).await;
    let audits = data::number(server.dir(), data::AUDITS).await;
    let rival = CheckpointBuilder::new(62).parent(&line[0], 1).build();
    api.store(&rival).await;
    for _ in 0..2 {
        let body = commit_of(&rival, None);
        let problem = refused(api, "r", &body, 409, "agg_nondeterministic", "fork").await;
        assert_eq!(problem["invariant"], "INV-AGG-DETERMINISM");
        assert_eq!(problem["fields"]["expected_hash"], line[1].content_hash.as_str());
        assert_eq!(problem["fields"]["got_hash"], rival.content_hash.as_str());
    }
    let found = "select run || ' ' || code || ' ' || round_index || ' ' || expected || ' ' || found from findings";
    let expected = format!("r agg_nondeterministic 1 {} {}", line[1].content_hash, rival.content_hash);
    assert_eq!(data::texts(server.dir(), found).await, [expected]);
    assert_eq!(data::number(server.dir(), data::AUDITS).await, audits + 2);
}

/// A commit needs a run and a checkpoint that are here, and bytes that are what they were.
#[tokio::test]
async fn what_is_not_here_cannot_be_committed() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(70).build();
    let body = commit_of(&checkpoint, None);
    api.commit("nowhere", &body).await.refused(404, "registry_not_found");
    api.commit("é", &body).await.refused(404, "registry_not_found");
    api.register("r", json!({})).await;
    let problem = api.commit("r", &body).await.refused(404, "registry_not_found");
    assert!(problem["remediation"].as_str().unwrap().contains("Push the checkpoint first"), "{problem}");
    api.store(&checkpoint).await;
    data::flip(&data::blobs(server.dir())[0], 40);
    api.commit("r", &body).await.refused(500, "checkpoint_integrity");
    assert_eq!(api.head_of("r").await["round_index"], Value::Null);
    // Pushing again repairs it.
    assert!(api.push(&checkpoint).await.status.is_success());
    api.commit("r", &body).await.expect(StatusCode::CREATED);
}

/// The body of a commit is read strictly.
#[tokio::test]
async fn commits_are_read_strictly() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(71).build();
    committed(api, "r", std::slice::from_ref(&checkpoint)).await;
    let hash = &checkpoint.content_hash;
    let good = format!(r#""content_hash":"{hash}","round_index":0,"parent_hash":null"#);
    let post = async |body: String| -> Answer { api.post("/v1/runs/r/commits", body).await };
    assert_eq!(post(format!("{{{good}}}")).await.status, StatusCode::OK);
    for body in [
        String::new(),
        "[]".into(),
        format!("[\"{hash}\",0]"),
        format!("{{{good},\"round_index\":0}}"),
        format!("{{{good},\"hunter2 \":0}}"),
        format!("{{{good}}} {{}}"),
        format!(r#"{{"content_hash":"{hash}","round_index":-1}}"#),
        format!(r#"{{"content_hash":"{hash}","round_index":0.0}}"#),
        format!(r#"{{"content_hash":"{hash}","round_index":"0"}}"#),
        format!(r#"{{"content_hash":"{hash}","round_index":NaN}}"#),
        format!(r#"{{"content_hash":"{}","round_index":0}}"#, hash.to_uppercase()),
        r#"{"content_hash":"hunter2","round_index":0}"#.into(),
        r#"{"round_index":0}"#.into(),
        format!(r#"{{{good},"upload":{}}}"#, "[".repeat(50_000)),
        format!(r#"{{{good},"record":{}"#, r#"{"a":"#.repeat(50_000)),
    ] {
        let problem = post(body).await.refused(400, "config_invalid");
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
    for record in [
        "7".to_owned(),
        "[]".into(),
        r#"{"schema_version":1,"hunter2":1,"hunter2":2}"#.into(),
        format!("{}1{}", "[".repeat(100), "]".repeat(100)),
        r#"{"schema_version":1,"round_index":"hunter2"}"#.into(),
    ] {
        let problem = post(format!(r#"{{{good},"record":{record}}}"#)).await.refused(422, "merkle_verify_failed");
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
}
