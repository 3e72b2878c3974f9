//! Records: who contributed to a round, with which data. The chain of them, and what they are held against.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder};
use crate::support::client::{Answer, Api};
use crate::support::data;
use crate::support::history::{chain, commit_of, commitment, made_up, record, record_hash, segment};
use crate::support::server::TestServer;

/// Two participants that have committed to data, and a run at round 0.
async fn begun(api: &Api, run: &str, first: &Checkpoint, pins: Value) -> Vec<(&'static str, String)> {
    api.register(run, pins).await;
    let roots = vec![("a", made_up("a")), ("b", made_up("b"))];
    for (name, root) in &roots {
        api.bound(run, name, Some(0), root).await;
    }
    api.push(first).await;
    api.commit(run, &commit_of(first, None)).await.expect(StatusCode::CREATED);
    roots
}

/// A refused commit leaves round, ledger and news as they were.
async fn refused(api: &Api, run: &str, body: &Value, code: &str) -> Value {
    let before = (api.head_of(run).await, api.ledger(run).await);
    let problem = api.commit(run, body).await.refused(409, code);
    assert_eq!((api.head_of(run).await, api.ledger(run).await), before, "{problem}");
    problem
}

/// D8: the chain has one beginning, no gap in its links, and rounds that rise. D4: record t belongs to checkpoint t +
/// 1.
#[tokio::test]
async fn a_record_continues_the_ledger_or_nothing_is_committed() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(100, 4);
    let roots = begun(api, "r", &line[0], json!({})).await;
    for checkpoint in &line[1..] {
        api.store(checkpoint).await;
    }
    let first = record(0, &roots, &line[1], None);
    let commit = |checkpoint: &Checkpoint, record: Value| commit_of(checkpoint, Some(record));

    // The first record names nobody before it.
    let named = commit(&line[1], record(0, &roots, &line[1], Some(&made_up("nobody"))));
    let problem = refused(api, "r", &named, "provenance_failed").await;
    assert_eq!(problem["fields"]["expected_prev_record_hash"], Value::Null);
    for (wrong, cause) in [
        (record(1, &roots, &line[1], None), "round_off_by_one"),
        (record(i64::MAX as u64, &roots, &line[1], None), "round_off_by_one"),
        (record(0, &roots, &line[0], None), "other_checkpoint"),
        (record(0, &roots, &line[2], None), "other_checkpoint"),
    ] {
        let problem = refused(api, "r", &commit(&line[1], wrong), "provenance_failed").await;
        assert_eq!(problem["fields"]["cause"], cause, "{problem}");
    }
    let round = api.commit("r", &commit(&line[1], first.clone())).await.expect(StatusCode::CREATED).json();
    assert_eq!(round["record_hash"], record_hash(&first));

    // A second beginning, another predecessor.
    for prev in [None, Some(made_up("other"))] {
        let body = commit(&line[2], record(1, &roots, &line[2], prev.as_deref()));
        let problem = refused(api, "r", &body, "provenance_failed").await;
        assert_eq!(problem["fields"]["expected_prev_record_hash"], record_hash(&first), "{problem}");
        assert_eq!(problem["fields"]["got_prev_record_hash"], json!(prev), "{problem}");
    }
    // A round may have no record, and the next one names the last there is.
    api.commit("r", &commit_of(&line[2], None)).await.expect(StatusCode::CREATED);
    let third = record(2, &roots, &line[3], Some(&record_hash(&first)));
    api.commit("r", &commit(&line[3], third.clone())).await.expect(StatusCode::CREATED);

    let head = api.head_of("r").await;
    assert_eq!(
        (&head["ledger_tail"], &head["ledger_round"], &head["ledger_count"]),
        (&json!(record_hash(&third)), &json!(2), &json!(2))
    );
    assert_eq!(api.ledger("r").await, format!("{first}\n{third}\n").into_bytes());
    let answer = api.get("/v1/runs/r/ledger").await;
    assert_eq!(answer.header("content-type"), "application/jsonl");
    assert_eq!(answer.header("etag"), format!("\"{}\"", record_hash(&third)));
    let path = format!("/v1/ledgers/verify?head={}", record_hash(&third));
    assert_eq!(api.post(&path, answer.body).await.json()["verify_chain"], true);
}

/// D8: round 0 was not trained, so no record belongs to it.
#[tokio::test]
async fn round_zero_has_no_record() {
    let server = TestServer::start().await;
    let api = &server.api;
    let first = CheckpointBuilder::new(110).build();
    api.register("r", json!({})).await;
    api.bound("r", "a", Some(0), &made_up("a")).await;
    api.store(&first).await;
    let body = commit_of(&first, Some(record(0, &[("a", made_up("a"))], &first, None)));
    let problem = refused(api, "r", &body, "provenance_failed").await;
    assert_eq!(problem["fields"]["cause"], "record_for_round_zero");
    api.commit("r", &commit_of(&first, None)).await.expect(StatusCode::CREATED);
    assert_eq!(api.ledger("r").await, b"");
    assert_eq!(api.get("/v1/runs/r/ledger").await.header("etag"), "\"empty\"");
}

/// D10: whoever contributes is declared, has committed to data, and to exactly the data in the record.
#[tokio::test]
async fn a_record_names_the_data_that_was_committed_to() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(120, 2);
    begun(api, "r", &line[0], json!({"participants": ["a", "b", "c"]})).await;
    api.store(&line[1]).await;
    let audits = data::number(server.dir(), data::AUDITS).await;
    let (a, b) = (("a", made_up("a")), ("b", made_up("b")));
    let cases = [
        (vec![a.clone(), ("b", made_up("a"))], "b", json!(made_up("b"))),
        (vec![a.clone(), b.clone(), ("c", made_up("c"))], "c", Value::Null),
        (vec![a.clone(), ("d", made_up("a"))], "d", Value::Null),
    ];
    for (roots, participant, expected) in cases {
        let body = commit_of(&line[1], Some(record(0, &roots, &line[1], None)));
        let problem = refused(api, "r", &body, "commitment_mismatch").await;
        let fields = &problem["fields"];
        assert_eq!((&fields["participant_id"], &fields["round"]), (&json!(participant), &json!(0)), "{problem}");
        assert_eq!(fields["expected_root"], expected, "{problem}");
        assert_eq!(fields["got_root"], roots.last().unwrap().1.as_str(), "{problem}");
        assert_eq!(problem["invariant"], "INV-COMMIT-BINDING", "{problem}");
    }
    assert_eq!(data::number(server.dir(), data::AUDITS).await, audits + 3);
    let body = commit_of(&line[1], Some(record(0, &[a, b], &line[1], None)));
    api.commit("r", &body).await.expect(StatusCode::CREATED);
}

/// D10: fewer contributors than the run is pinned to are too few.
#[tokio::test]
async fn a_round_has_the_pinned_number_of_contributors() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(130, 2);
    let roots = begun(api, "r", &line[0], json!({"min_participants": 2})).await;
    api.store(&line[1]).await;
    let body = |count: usize| commit_of(&line[1], Some(record(0, &roots[..count], &line[1], None)));
    let problem = refused(api, "r", &body(1), "fault_tolerance_exceeded").await;
    assert_eq!(problem["fields"], json!({"round": 0, "present": 1, "minimum": 2}));
    api.commit("r", &body(2)).await.expect(StatusCode::CREATED);
}

/// E5, D10: a commitment holds from its round until the next one; closed rounds are never touched.
#[tokio::test]
async fn a_later_commitment_never_reaches_back() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(140, 5);
    begun(api, "r", &line[0], json!({})).await;
    let root = |epoch: u64| made_up(&format!("epoch {epoch}"));
    // Rounds 0 and 1 with the first root, 2 with the second, from 3 on with the third, which is announced early.
    api.bound("r", "p", None, &root(0)).await;
    api.bound("r", "p", Some(3), &root(3)).await;
    api.bound("r", "p", Some(2), &root(2)).await;
    let mut prev: Option<String> = None;
    for (round, made) in line[1..].iter().enumerate() {
        let round = round as u64;
        let in_force = [0, 0, 2, 3][round as usize];
        api.store(made).await;
        let body = |epoch: u64| commit_of(made, Some(record(round, &[("p", root(epoch))], made, prev.as_deref())));
        for wrong in [0, 2, 3].into_iter().filter(|epoch| *epoch != in_force) {
            let problem = refused(api, "r", &body(wrong), "commitment_mismatch").await;
            assert_eq!(problem["fields"]["expected_root"], root(in_force), "{problem}");
        }
        api.commit("r", &body(in_force)).await.expect(StatusCode::CREATED);
        prev = Some(record_hash(&body(in_force)["record"]));
        // The round is closed now, and its ledger line is what it was for ever.
        let before = api.ledger("r").await;
        let late = api.bind("r", "late", Some(round), commitment(&root(9)).to_string()).await;
        let problem = late.refused(409, "provenance_failed");
        assert_eq!(
            (&problem["fields"]["cause"], &problem["fields"]["open_round"]),
            (&json!("round_closed"), &json!(round + 1))
        );
        let again = api.bind("r", "p", Some(0), commitment(&root(9)).to_string()).await;
        again.refused(409, "commitment_mismatch");
        assert_eq!(api.ledger("r").await, before);
    }
    // Without a round it holds from the open one.
    let told = api.bind("r", "late", None, commitment(&root(9)).to_string()).await.expect(StatusCode::CREATED).json();
    assert_eq!(told["from_round"], 4);
    let list = api.get("/v1/runs/r/participants/p/commitments").await.json();
    let told: Vec<_> = list["commitments"].as_array().unwrap().iter().map(|one| one["from_round"].as_u64()).collect();
    assert_eq!(told, [Some(0), Some(2), Some(3)]);
}

/// E5: one participant, one round, one commitment: the same bytes are a repetition, anything else is another.
#[tokio::test]
async fn a_participant_commits_once_for_a_round() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({"participants": ["p", "q"]})).await;
    let good = commitment(&made_up("data"));
    let bind = async |who: &str, body: &Value| -> Answer { api.bind("r", who, Some(4), body.to_string()).await };
    let told = bind("p", &good).await.expect(StatusCode::CREATED).json();
    assert_eq!(bind("p", &good).await.expect(StatusCode::OK).json(), told);
    for (field, value) in [
        ("merkle_root", json!(made_up("other"))),
        ("episode_count", json!(4)),
        ("created_at", json!("2027-01-01T00:00:00Z")),
    ] {
        let mut other = good.clone();
        other[field] = value;
        let problem = bind("p", &other).await.refused(409, "commitment_mismatch");
        assert_eq!(problem["fields"]["expected_root"], good["merkle_root"], "{problem}");
        assert_eq!(problem["fields"]["got_root"], other["merkle_root"], "{problem}");
    }
    // Two participants may hold the same data; a name that the run does not declare is nobody's.
    bind("q", &good).await.expect(StatusCode::CREATED);
    let problem = bind("r", &good).await.refused(409, "commitment_mismatch");
    assert_eq!(problem["fields"]["participant_id"], "r");
    let mut other = good.clone();
    other["wmcp_version"] = json!("wmcp-2");
    bind("p", &other).await.refused(409, "wmcp_contract_violation");
    let all = api.get("/v1/runs/r/commitments").await.json();
    assert_eq!(all["commitments"].as_array().unwrap().len(), 2, "{all}");
    let documents = api.get("/v1/runs/r/documents/dataset-commitment").await.json();
    assert_eq!(documents["documents"].as_array().unwrap().len(), 1, "{documents}");
    for from in ["-1", "1.5", "x", "", "18446744073709551616"] {
        let path = format!("/v1/runs/r/participants/p/commitments?from_round={from}");
        api.post(&path, good.to_string()).await.refused(400, "config_invalid");
    }
    api.bind("r", "p", Some(1 << 31), good.to_string()).await.refused(409, "provenance_failed");
}

/// D9: participants of any script, from the path to the ledger's last byte; what would break a line is nobody's name.
#[tokio::test]
async fn names_of_participants_are_of_any_script() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(150, 2);
    let names = ["silo-α", "机器人-7", "a b/c%2F", "é\u{301}", "🤖", "\"quoted\\\"", "..", "ß?#&=", "عربي"];
    api.register("r", json!({"participants": names})).await;
    api.register("open", json!({})).await;
    let roots: Vec<(&str, String)> = names.iter().map(|name| (*name, made_up(name))).collect();
    for (name, root) in roots.iter().filter(|(name, _)| *name != "..") {
        api.bound("r", name, Some(0), root).await;
        let path = format!("/v1/runs/r/participants/{}/commitments", segment(name));
        let told = api.get(&path).await.expect(StatusCode::OK).json();
        assert_eq!(told["commitments"][0]["participant"], *name);
    }
    for checkpoint in &line {
        api.store(checkpoint).await;
    }
    api.commit("r", &commit_of(&line[0], None)).await.expect(StatusCode::CREATED);
    let held: Vec<_> = roots.into_iter().filter(|(name, _)| *name != "..").collect();
    let first = record(0, &held, &line[1], None);
    api.commit("r", &commit_of(&line[1], Some(first.clone()))).await.expect(StatusCode::CREATED);
    assert_eq!(api.ledger("r").await, format!("{first}\n").into_bytes());
    assert_eq!(api.head_of("r").await["ledger_tail"], record_hash(&first));

    let long = "é".repeat(129);
    for name in ["\u{0}", "a\nb", "a\u{2028}b", "\u{85}", "\u{feff}a", &long] {
        let body = commitment(&made_up("x")).to_string();
        api.bind("open", name, Some(0), body).await.refused(400, "config_invalid");
    }
    api.bind("open", &"é".repeat(128), Some(0), commitment(&made_up("x")).to_string())
        .await
        .expect(StatusCode::CREATED);
    let path = "/v1/runs/open/participants/%FF/commitments";
    api.post(path, commitment(&made_up("x")).to_string()).await.refused(400, "config_invalid");
}

/// D9: a record that came over several lines stands on one, and its hash is the same.
#[tokio::test]
async fn a_record_is_one_line_however_it_came() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(160, 2);
    let roots = begun(api, "r", &line[0], json!({})).await;
    api.store(&line[1]).await;
    let record = record(0, &roots, &line[1], None);
    let mut body = commit_of(&line[1], None).to_string();
    body.pop();
    body += &format!(",\"record\":{}}}", serde_json::to_string_pretty(&record).unwrap());
    let round = api.post("/v1/runs/r/commits", body).await.expect(StatusCode::CREATED).json();
    assert_eq!(round["record_hash"], record_hash(&record));
    let ledger = String::from_utf8(api.ledger("r").await).unwrap();
    assert_eq!(ledger.lines().count(), 1);
    assert_eq!(serde_json::from_str::<Value>(&ledger).unwrap(), record);
}
