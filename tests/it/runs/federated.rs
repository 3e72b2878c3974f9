//! The run that Lensemble's own coordinator has driven, from registration to the exported ledger.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::golden::comes_back;
use crate::support::archive;
use crate::support::checkpoint::sha256;
use crate::support::golden::{Vector, vectors};
use crate::support::history::segment;
use crate::support::server::TestServer;

const RUN: &str = "federated";

fn rows(vector: &Vector, name: &str) -> Vec<Value> {
    vector.expect[name].as_array().unwrap().clone()
}

/// C1, C6, C7, D1, D4, D7, D9, D10, D13, E4, E13, I9 without the reference's own reader: every hash, seed and line that
/// the library has written is what the registry says.
#[tokio::test]
async fn a_run_of_lensembles_own_is_taken_and_given_back() {
    let server = TestServer::start().await;
    let api = &server.api;
    let vectors = vectors("run");
    let [vector] = &vectors[..] else { panic!("one run") };
    assert_eq!(vector.files.len(), 14);
    let (rounds, records) = (rows(vector, "rounds"), rows(vector, "ledger"));
    assert_eq!((rounds.len(), records.len()), (4, 3));

    let participants = ["c0", "c1", "c2"];
    let pins = json!({
        "consortium": "lab", "config_hash": vector.expect["config_hash"], "participants": participants,
        "min_participants": 2, "visibility": "public",
        "warm_start": {"release": "vjepa2-2.0", "encoder_group_hash": rounds[0]["theta_hash"]},
    });
    api.register(RUN, pins).await;
    for participant in participants {
        let body = vector.file(&format!("run/commitments/{participant}.json"));
        let bound = api.bind(RUN, participant, Some(0), body.clone()).await.expect(StatusCode::CREATED).json();
        assert_eq!(bound["merkle_root"], vector.expect["dataset_roots"][participant]);
        comes_back(api, RUN, "dataset-commitment", &body).await;
    }
    let manifest = vector.file("run/run_manifest.json");
    api.keep(RUN, "run-manifest", manifest.clone()).await.expect(StatusCode::CREATED);
    comes_back(api, RUN, "run-manifest", &manifest).await;

    let opens: Vec<Value> = serde_json::from_slice(&vector.file("run/round-open.json")).unwrap();
    let ledger = String::from_utf8(vector.file("run/ledger.jsonl")).unwrap();
    let mut lines = ledger.lines();
    for (index, round) in rounds.iter().enumerate() {
        let hash = round["content_hash"].as_str().unwrap();
        let files = vector.checkpoint(round["path"].as_str().unwrap());
        let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        api.put(hash, archive::archive(files)).await.expect(StatusCode::CREATED);
        // The record stands in the body as the library wrote it, so that the ledger can be the library's to the byte.
        let record = if index == 0 { String::new() } else { format!(r#","record":{}"#, lines.next().unwrap()) };
        let body = format!(
            r#"{{"content_hash":"{hash}","round_index":{index},"parent_hash":{}{record}}}"#,
            round["parent_hash"]
        );
        let committed = api.post(&format!("/v1/runs/{RUN}/commits"), body).await.expect(StatusCode::CREATED);
        assert_eq!(committed.header("location"), format!("/v1/runs/{RUN}/rounds/{index}"));
        assert_eq!(
            committed.json()["record_hash"],
            index.checked_sub(1).map_or(Value::Null, |t| records[t]["record_hash"].clone())
        );

        let head = api.head_of(RUN).await;
        assert_eq!((&head["round_index"], &head["content_hash"]), (&json!(index), &round["content_hash"]));
        assert_eq!(head["parent_hash"], round["parent_hash"]);
        assert_eq!((&head["wmcp_version"], &head["probe_hash"]), (&json!("wmcp-1.0.0"), &json!("0".repeat(64))));
        for (field, group, expected) in [("theta_ref", "encoder", "theta_hash"), ("phi_ref", "predictor", "phi_hash")] {
            let locator = format!("artifact://lab/{RUN}/round-{index:05}/{group}");
            assert_eq!(head[field], json!({"content_hash": round[expected], "locator": locator}));
            let hash = head[field]["content_hash"].as_str().unwrap();
            let bytes = api.get(&format!("/v1/params/{hash}")).await.expect(StatusCode::OK).body;
            assert_eq!(sha256(&bytes), hash, "{group} of round {index}");
        }
        if let Some(open) = opens.get(index) {
            assert_eq!(head["sketch_seed"], open["sketch_seed"], "round {index}");
            opened(&server, open).await;
        }
    }
    assert_eq!(lines.next(), None);
    assert!(api.ledger(RUN).await == ledger.as_bytes(), "the ledger is not the library's");
    let head = api.head_of(RUN).await;
    assert_eq!((&head["ledger_tail"], &head["ledger_count"]), (&records[2]["record_hash"], &json!(3)));
    let verdict = api.post("/v1/ledgers/verify", api.ledger(RUN).await).await.json();
    assert_eq!((&verdict["verify_chain"], &verdict["head"]), (&json!(true), &records[2]["record_hash"]));
    closed(&server, &rounds).await;
}

/// The opening of the round at hand: its locators lead to its groups, and the message itself is kept.
async fn opened(server: &TestServer, open: &Value) {
    let api = &server.api;
    for reference in [&open["theta_ref"], &open["phi_ref"]] {
        let locator = reference["locator"].as_str().unwrap();
        for beside in [String::new(), format!("&content_hash={}", reference["content_hash"].as_str().unwrap())] {
            let path = format!("/v1/runs/{RUN}/resolve?locator={}{beside}", segment(locator));
            let resolved = api.get(&path).await.expect(StatusCode::OK).json();
            assert_eq!(resolved["content_hash"], reference["content_hash"], "{locator}");
            assert_eq!(resolved["round_index"], open["round_index"], "{locator}");
        }
    }
    let mut message = json!({
        "schema_version": 2, "kind": "round_open", "round_index": open["round_index"],
        "theta_ref_hash": open["theta_ref"]["content_hash"], "theta_ref_locator": open["theta_ref"]["locator"],
        "phi_ref_hash": open["phi_ref"]["content_hash"], "phi_ref_locator": open["phi_ref"]["locator"],
        "sketch_seed": open["sketch_seed"], "probe_hash": open["probe_hash"], "landmark_hashes": [],
        "inner_horizon": 0,
    });
    let text = message.to_string();
    api.keep(RUN, "round-open", text.clone()).await.expect(StatusCode::CREATED);
    comes_back(api, RUN, "round-open", text.as_bytes()).await;
    message["sketch_seed"] = json!(open["sketch_seed"].as_u64().unwrap() ^ 1);
    let problem = api.keep(RUN, "round-open", message.to_string()).await.refused(422, "config_invalid");
    assert_eq!(problem["invariant"], "INV-SKETCH-CONSISTENCY");
}

/// Every round can be read again, and its closing names the round after it.
async fn closed(server: &TestServer, rounds: &[Value]) {
    let api = &server.api;
    let list = api.get(&format!("/v1/runs/{RUN}/rounds")).await.expect(StatusCode::OK).json();
    let told: Vec<&Value> = list["rounds"].as_array().unwrap().iter().map(|round| &round["content_hash"]).collect();
    assert_eq!(told, rounds.iter().rev().map(|round| &round["content_hash"]).collect::<Vec<_>>());
    for (index, round) in rounds.iter().enumerate() {
        let close = |hash: &Value| {
            json!({
                "schema_version": 2, "kind": "round_close", "round_index": index, "global_model_hash": hash,
            })
        };
        let answer = api.keep(RUN, "round-close", close(&round["content_hash"]).to_string()).await;
        assert_eq!(answer.refused(409, "provenance_failed")["fields"]["cause"], "round_off_by_one");
        if let Some(next) = rounds.get(index + 1) {
            api.keep(RUN, "round-close", close(&next["content_hash"]).to_string()).await.expect(StatusCode::CREATED);
        }
        let path = format!("/v1/artifacts/{}", round["content_hash"].as_str().unwrap());
        let artifact = api.get(&path).await.expect(StatusCode::OK).json();
        assert_eq!(artifact["commits"], json!([{"run": RUN, "round_index": index}]));
    }
}
