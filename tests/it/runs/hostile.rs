//! Input that is wrong on purpose, at every place where runs and documents take any.

use cairn::core::document::Kind;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::client::{Answer, Api, send};
use crate::support::data;
use crate::support::golden::bytes;
use crate::support::history::{chain, committed, segment};
use crate::support::server::TestServer;

const ZERO: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Every path that takes a body, whether it wants JSON to be called that, and the most bytes that it takes.
const TAKING: [(&str, bool, usize); 8] = [
    ("/v1/runs", true, 4 << 20),
    ("/v1/runs/r/commits", true, 1 << 20),
    ("/v1/runs/r/aborts", true, 64 << 10),
    ("/v1/runs/r/documents/run-manifest", true, 1 << 20),
    ("/v1/runs/r/participants/p/commitments", true, 1 << 20),
    ("/v1/config-hash", false, 1 << 20),
    ("/v1/proofs/verify", false, 1 << 20),
    ("/v1/ledgers/verify", false, 64 << 20),
];

async fn untouched(api: &Api) {
    assert_eq!(api.head_of("r").await["event_id"], 1);
    assert_eq!(api.get("/v1/runs/r/documents").await.json()["documents"], json!([]));
    assert_eq!(api.get("/v1/runs").await.json()["runs"].as_array().unwrap().len(), 1);
    assert_eq!(api.get("/readyz").await.status, StatusCode::OK);
}

/// Strings of megabytes, told beforehand or not, end at the limit of their place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_beyond_their_limit_are_refused() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(900, 1)).await;
    for (path, _, limit) in TAKING {
        let size = if limit > 10 << 20 { limit + 1 } else { 10 << 20 };
        let told = send(api.request(Method::POST, path).body(format!("\"{}\"", "x".repeat(size)))).await;
        let problem = told.refused(413, "registry_too_large");
        assert_eq!(problem["fields"]["limit"], limit, "{path}: {problem}");
        // In pieces, without a length.
        let piece = bytes::Bytes::from(vec![b'x'; 64 << 10]);
        let pieces = futures_util::stream::iter(
            (0..size / piece.len() + 1).map(move |_| Ok::<_, std::io::Error>(piece.clone())),
        );
        let request = api.request(Method::POST, path).header(CONTENT_TYPE, "application/json");
        send(request.body(reqwest::Body::wrap_stream(pieces))).await.refused(413, "registry_too_large");
    }
    untouched(api).await;
}

/// What is sent as something else than JSON is not read; what is compressed is not unpacked.
#[tokio::test]
async fn other_media_types_are_refused() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(901, 1)).await;
    for (path, json, _) in TAKING.into_iter().filter(|(_, json, _)| *json) {
        assert!(json);
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/x-tar", "", "é"] {
            let request = api.request(Method::POST, path).body("{}").header(CONTENT_TYPE, kind);
            let problem = send(request).await.refused(415, "registry_unsupported_media");
            assert_eq!(problem["fields"]["accepted"][0], "application/json", "{path}: {problem}");
        }
        for encoding in ["gzip", "br", "x"] {
            let request = api.post_request(path, "{}").header(CONTENT_ENCODING, encoding);
            send(request).await.refused(415, "registry_unsupported_media");
        }
    }
    untouched(api).await;
}

/// What is not strict JSON is refused for every kind of document with the code of its kind, and never repeated.
#[tokio::test]
async fn documents_are_strict_json() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(902, 1)).await;
    let bomb = |open: &str, close: &str, levels: usize| format!("{}{}", open.repeat(levels), close.repeat(levels));
    let texts: Vec<Vec<u8>> = [
        r#"{"schema_version":1,"hunter2":1,"hunter2":2}"#.into(),
        r#"{"schema_version":1,"schema_version":1}"#.into(),
        r#"{"schema_version":1,"a":{"b":1,"\u0062":2}}"#.into(),
        r#"{"schema_version":1,"a":NaN}"#.into(),
        r#"{"schema_version":1,"a":-Infinity}"#.into(),
        r#"{"schema_version":1,"a":1e999}"#.into(),
        r#"{"schema_version":1,"a":"\ud800 hunter2"}"#.into(),
        r#"{"schema_version":1,"a":01}"#.into(),
        r#"{"schema_version":1,}"#.into(),
        "{'schema_version':1}".into(),
        "\u{feff}{\"schema_version\":1}".into(),
        r#"{"schema_version":1} hunter2"#.into(),
        format!(r#"{{"schema_version":1,"a":{}}}"#, "9".repeat(5000)),
        bomb("[", "]", 65),
        bomb("[", "]", 200_000),
        bomb(r#"{"a":"#, "}", 200),
        "[".repeat(500_000),
    ]
    .map(String::into_bytes)
    .into_iter()
    .chain([b"{\"schema_version\":1,\"hunter2\":\"\xff\"}".to_vec(), vec![0; 1000], vec![0x80, 4, b'}']])
    .collect();
    for kind in Kind::ALL {
        for text in &texts {
            let problem = api.keep("r", kind.name(), text.clone()).await.refused(422, kind.code().as_str());
            assert!(!problem.to_string().contains("hunter2"), "{problem}");
        }
    }
    for text in &texts {
        let refuse = |answer: Answer, status, code| {
            let problem = answer.refused(status, code);
            assert!(!problem.to_string().contains("hunter2"), "{problem}");
        };
        refuse(api.bind("r", "p", None, text.clone()).await, 422, "provenance_failed");
        refuse(api.post("/v1/config-hash", text.clone()).await, 400, "config_invalid");
        refuse(api.post("/v1/proofs/verify", text.clone()).await, 422, "merkle_verify_failed");
        for path in ["/v1/runs", "/v1/runs/r/commits", "/v1/runs/r/aborts"] {
            let too_large = path.ends_with("aborts") && text.len() > 64 << 10;
            let (status, code) = if too_large { (413, "registry_too_large") } else { (400, "config_invalid") };
            refuse(api.post(path, text.clone()).await, status, code);
        }
        refuse(api.post("/v1/ledgers/verify", text.clone()).await, 422, "merkle_verify_failed");
    }
    untouched(api).await;
}

/// G5: only kinds that are known come in; the name that was tried is repeated nowhere.
#[tokio::test]
async fn unknown_kinds_are_private_until_shown_otherwise() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(903, 1)).await;
    let audits = data::number(server.dir(), data::AUDITS).await;
    let kinds = [
        "delta",
        "raw-observation",
        "hunter2",
        "contribution-record",
        "update",
        "hunter2-机器人",
        "participant-agent-round-state",
        "run-manifest-hunter2",
        " ",
        "%",
        "run-manifest\u{0}",
        &"k".repeat(5000),
    ];
    for kind in kinds {
        let answer = api.keep("r", &segment(kind), "{}").await;
        let problem = answer.refused(422, "residency_violation");
        assert!(!answer.text().contains("hunter2") && !answer.text().contains("kkkk"), "{problem}");
        assert_eq!(problem["invariant"], "INV-RESIDENCY", "{problem}");
        // The kinds of JSON, and the probe.
        assert_eq!(problem["fields"]["known"].as_array().unwrap().len(), Kind::ALL.len() + 1, "{problem}");
    }
    let records = data::texts(server.dir(), "select detail from audit_records order by id").await;
    assert_eq!(records.len() as i64, audits + kinds.len() as i64);
    assert!(!records.iter().any(|record| record.contains("hunter2")), "{records:?}");
    untouched(api).await;
}

/// G6, G7: tensors, bulk data and credentials in a configuration are found by their shape; neither the answer nor the
/// audit record repeats them.
#[tokio::test]
async fn configurations_hold_no_secrets_and_no_data() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(904, 1)).await;
    let planted: Vec<Value> = vec![
        json!("sk-hunter2hunter2"),
        json!("hf_hunter2hunter2"),
        json!("AKIAHUNTER2HUNTER222"),
        json!("wandb password=hunter2"),
        json!("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2"),
        json!({"note: my token: hunter2": 1}),
        json!({"dtype": "f32", "shape": [2], "data": [0.25, 0.5], "hunter2": 1}),
        json!(vec![0.125; 65]),
        json!([[vec![1; 40]], [vec![2; 40]]]),
        json!("hunter2hunter2".repeat(40)),
        json!("0f".repeat(65)),
    ];
    for secret in &planted {
        for field in ["config_resolved", "env", "dependency_versions"] {
            let mut manifest: Value = serde_json::from_slice(&bytes("run/run_manifest.json")).unwrap();
            manifest[field]["planted"] = secret.clone();
            let answer = api.keep("r", "run-manifest", manifest.to_string()).await;
            let problem = answer.refused(422, "residency_violation");
            assert_eq!(problem["fields"]["field"], format!("run_manifest.{field}"), "{problem}");
            assert!(!answer.text().to_lowercase().contains("hunter2"), "{problem}");
        }
    }
    let records = data::texts(server.dir(), "select detail from audit_records").await;
    assert_eq!(records.len(), planted.len() * 3);
    assert!(!records.iter().any(|record| record.to_lowercase().contains("hunter2")), "{records:?}");
    untouched(api).await;
}

/// Names of runs are ASCII; whatever else stands in a path names nothing.
#[tokio::test]
async fn names_in_paths_name_nothing_or_what_is_there() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(905, 1)).await;
    for name in ["机器人", "r\u{301}", "R", "r%00", ".r", "r ", "-r", "r\u{202e}", &"r".repeat(200)] {
        for part in ["", "/head", "/rounds", "/rounds/0", "/events", "/ledger", "/documents", "/commitments", "/aborts"]
        {
            api.get(&format!("/v1/runs/{}{part}", segment(name))).await.refused(404, "registry_not_found");
        }
    }
    for path in ["/v1/runs/%FF/head", "/v1/runs/r%2Fhead", "/v1/runs/r/documents/%C3%28/x"] {
        let status = api.get(path).await.problem()["status"].as_u64();
        assert!(matches!(status, Some(400 | 404)), "{path}: {status:?}");
    }
    for digest in ["x", &ZERO[1..], &format!("{ZERO}0"), &"A".repeat(64)] {
        api.get(&format!("/v1/runs/r/documents/run-manifest/{digest}")).await.refused(404, "registry_not_found");
    }
    let path = format!("/v1/runs/r/documents/{}/{ZERO}", segment("机器人\r\n"));
    api.get(&path).await.refused(404, "registry_not_found");
    untouched(api).await;
}
