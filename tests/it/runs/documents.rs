//! Documents of a run: versions, revisions, references, and the bytes as they came.

use cairn::core::document::Kind;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::golden::comes_back;
use crate::support::checkpoint::{CheckpointBuilder, SINGLE, sha256};
use crate::support::client::{Answer, Api};
use crate::support::data;
use crate::support::golden::bytes;
use crate::support::history::{chain, commitment, committed, made_up};
use crate::support::server::TestServer;

fn manifest() -> Value {
    serde_json::from_slice(&bytes("run/run_manifest.json")).unwrap()
}

async fn kept(api: &Api, run: &str, kind: &str, document: &Value) -> Value {
    let text = document.to_string();
    let told = api.keep(run, kind, text.clone()).await.expect(StatusCode::CREATED).json();
    comes_back(api, run, kind, text.as_bytes()).await;
    told
}

/// E4: a coordinator's manifest may learn more roots, and nothing else of it changes; each revision is kept. E1: what
/// it says of the configuration is what the run is pinned to.
#[tokio::test]
async fn manifests_are_revised_by_more_roots_alone() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({"config_hash": manifest()["config_hash"]})).await;
    api.register("other", json!({"config_hash": made_up("other")})).await;
    let mut small = manifest();
    small["dataset_roots"].as_object_mut().unwrap().remove("c2");
    kept(api, "r", "run-manifest", &small).await;
    kept(api, "r", "run-manifest", &manifest()).await;
    let conflict = async |run: &str, changed: Value| -> Value {
        api.keep(run, "run-manifest", changed.to_string()).await.refused(409, "config_invalid")
    };
    let mut moved = manifest();
    moved["dataset_roots"]["c0"] = json!(made_up("moved"));
    for changed in [moved, small] {
        assert!(conflict("r", changed).await["message"].as_str().unwrap().contains("dataset_roots"));
    }
    // What does not say which run it is may change: a coordinator that was started again with a mended program.
    let mut later = manifest();
    later["git_sha"] = json!("unknown");
    kept(api, "r", "run-manifest", &later).await;
    let problem = conflict("other", manifest()).await;
    assert_eq!(problem["fields"]["expected"], made_up("other"), "{problem}");
    // A participant's manifest is its own, and revises nobody's.
    let mut own = manifest();
    own["run_mode"] = json!("participant");
    own["config_resolved"]["run_mode"] = json!("participant");
    let config = api.post("/v1/config-hash", own["config_resolved"].to_string()).await.json();
    own["config_hash"] = config["config_hash"].clone();
    kept(api, "r", "run-manifest", &own).await;
    let list = api.get("/v1/runs/r/documents/run-manifest").await.json();
    let modes: Vec<&Value> =
        list["documents"].as_array().unwrap().iter().map(|one| &one["summary"]["run_mode"]).collect();
    assert_eq!(modes, ["participant", "coordinator", "coordinator", "coordinator"]);
}

/// E1: one altered leaf, and the manifest does not re-hash.
#[tokio::test]
async fn a_manifest_that_does_not_re_hash_is_malformed() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    for (path, value) in [
        ("/config_resolved/federation/inner_lr", json!(0.002)),
        ("/config_resolved/model/depth", json!(1.0)),
        ("/config_resolved/run_mode", json!("Coordinator")),
        ("/config_hash", json!(made_up("x"))),
        ("/component_seeds/cuda", json!(1)),
        ("/round_sketch_seeds/1", json!(1)),
    ] {
        let mut altered = manifest();
        *altered.pointer_mut(path).unwrap() = value;
        let problem = api.keep("r", "run-manifest", altered.to_string()).await.refused(422, "config_invalid");
        assert!(problem["fields"]["field"].as_str().unwrap().starts_with("run_manifest."), "{path}: {problem}");
    }
    assert_eq!(api.head_of("r").await["event_id"], 0);
}

/// E10: the version is read before anything else, for every kind there is, both ways in.
#[tokio::test]
async fn every_kind_reads_its_version_first() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    assert_eq!(Kind::ALL.len(), 11);
    for kind in Kind::ALL {
        let mut versions: Vec<Value> =
            [json!(0), json!(-1), json!("1"), json!(1.0), json!(true), json!([1]), Value::Null].into();
        versions.push(json!(kind.newest() + 1));
        versions.extend((1..kind.oldest()).map(Value::from));
        versions.push(json!(u64::MAX));
        for version in versions {
            let body = json!({"schema_version": version, "nothing": "else is right"}).to_string();
            let problem = api.keep("r", kind.name(), body.clone()).await.refused(422, "schema_version_mismatch");
            assert_eq!(problem["fields"]["field"], "schema_version", "{problem}");
            assert_eq!(problem["fields"]["reader_max_version"], kind.newest(), "{problem}");
            if *kind == Kind::DatasetCommitment {
                api.bind("r", "p", None, body).await.refused(422, "schema_version_mismatch");
            }
        }
        api.keep("r", kind.name(), "{}").await.refused(422, "schema_version_mismatch");
        // What is no object at all has no version, and the code of its kind.
        for text in ["[]", "7", "null", "{", ""] {
            api.keep("r", kind.name(), text).await.refused(422, kind.code().as_str());
        }
    }
    assert_eq!(api.head_of("r").await["event_id"], 0);
}

/// D11: whatever names a probe names the pinned one.
#[tokio::test]
async fn documents_name_the_pinned_probe() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (pinned, other) = (made_up("probe"), made_up("other probe"));
    api.register("r", json!({"probe_hash": pinned})).await;
    api.register("none", json!({"probe_hash": "0".repeat(64)})).await;
    let claim = |probe: &str| {
        json!({
            "schema_version": 1, "round_index": 0, "procrustes_q_hash": made_up("q"), "procrustes_residual": 0.25,
            "rotation_angle_deg": 1.5, "probe_hash": probe,
        })
    };
    let again = |probe: &str| {
        json!({"schema_version": 1, "round_index": 0, "probe_hash": probe, "recomputed": claim(probe),
            "matches_expected": true, "max_abs_residual_delta": 0.0})
    };
    let with_probe = |probe: Option<&str>| {
        let mut manifest = manifest();
        manifest["probe_hash"] = json!(probe);
        manifest
    };
    for (kind, right, wrong) in [
        ("alignment-claim", claim(&pinned), claim(&other)),
        ("alignment-recomputation", again(&pinned), again(&other)),
        ("run-manifest", with_probe(Some(&pinned)), with_probe(Some(&other))),
        ("run-manifest", with_probe(Some(&pinned)), with_probe(None)),
    ] {
        let problem = api.keep("r", kind, wrong.to_string()).await.refused(409, "probe_invalid");
        assert_eq!(problem["fields"]["expected_hash"], pinned, "{problem}");
        assert_eq!(problem["invariant"], "INV-PROBE-PIN", "{problem}");
        let status = api.keep("r", kind, right.to_string()).await.status;
        assert!(status.is_success(), "{kind}: {status}");
        // A run without a probe has nothing to hold them against.
        assert!(api.keep("none", kind, right.to_string()).await.status.is_success());
    }
    let open = |probe: &str| {
        json!({"schema_version": 2, "kind": "round_open", "round_index": 0, "theta_ref_hash": made_up("t"),
            "theta_ref_locator": "mem://theta", "phi_ref_hash": made_up("p"), "phi_ref_locator": "mem://phi",
            "sketch_seed": 1, "probe_hash": probe, "landmark_hashes": [], "inner_horizon": 0})
    };
    for probe in [&other, &"0".repeat(64)] {
        api.keep("r", "round-open", open(probe).to_string()).await.refused(409, "probe_invalid");
    }
}

/// INV-WMCP: every document that names a contract version names the pinned one.
#[tokio::test]
async fn documents_name_the_pinned_contract() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({"wmcp_version": "wmcp-2"})).await;
    for (kind, document) in [("run-manifest", manifest()), ("dataset-commitment", commitment(&made_up("x")))] {
        let problem = api.keep("r", kind, document.to_string()).await.refused(409, "wmcp_contract_violation");
        assert_eq!((&problem["fields"]["wmcp_version"], &problem["invariant"]), (&json!("wmcp-2"), &json!("INV-WMCP")));
    }
}

/// D4, D13: the opening of a round names the weights that the round begins with.
#[tokio::test]
async fn round_messages_speak_of_rounds_that_are_committed() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(800, 2);
    committed(api, "r", &line).await;
    let theta = |round: usize| sha256(&line[round].groups[0].1);
    let phi = |round: usize| sha256(&line[round].groups[1].1);
    let open = |round: u64, theta: String, phi: String| {
        json!({"schema_version": 2, "kind": "round_open", "round_index": round, "theta_ref_hash": theta,
            "theta_ref_locator": "mem://theta", "phi_ref_hash": phi, "phi_ref_locator": "mem://phi",
            "sketch_seed": 1, "probe_hash": "0".repeat(64), "landmark_hashes": [], "inner_horizon": 0})
    };
    kept(api, "r", "round-open", &open(1, theta(1), phi(1))).await;
    for (wrong, code) in [
        (open(2, theta(1), phi(1)), "round_failed"),
        (open(i64::MAX as u64, theta(1), phi(1)), "round_failed"),
        (open(1, theta(0), phi(1)), "checkpoint_integrity"),
        (open(1, theta(1), phi(0)), "checkpoint_integrity"),
        (open(1, phi(1), theta(1)), "checkpoint_integrity"),
    ] {
        api.keep("r", "round-open", wrong.to_string()).await.refused(409, code);
    }
    let close = |version: u64, round: u64, made: &str| {
        json!({
            "schema_version": version, "kind": "round_close", "round_index": round, "global_model_hash": made,
        })
    };
    for (round, made) in [(0, &line[0]), (1, &line[1]), (1, &line[0]), (i64::MAX as u64, &line[1])] {
        let wrong = close(2, round, &made.content_hash);
        let problem = api.keep("r", "round-close", wrong.to_string()).await.refused(409, "provenance_failed");
        assert_eq!(problem["fields"]["cause"], "round_off_by_one");
    }

    // E13: an older version is kept as it came, and can be seen in the newest.
    let old = close(1, 0, &line[1].content_hash);
    let told = kept(api, "r", "round-close", &old).await;
    assert_eq!(told["schema_version"], 1);
    let url = told["url"].as_str().unwrap();
    assert_eq!(api.get(&format!("{url}?view=original")).await.body, old.to_string().into_bytes());
    let latest = api.get(&format!("{url}?view=latest")).await.expect(StatusCode::OK);
    assert_eq!(latest.json(), close(2, 0, &line[1].content_hash));
    assert_eq!(latest.header("etag"), format!("\"{}\"", sha256(&latest.body)));
    api.get(&format!("{url}?view=newest")).await.refused(406, "schema_version_mismatch");
}

fn evidence(digest: impl Fn(&str) -> Option<String>) -> Value {
    let kinds = [
        "consortium-manifest",
        "dataset-probe-registry",
        "training-report",
        "privacy-aggregation-report",
        "observability-report",
        "eval-control-report",
        "run-manifest",
        "checkpoint-header",
        "checkpoint-weights",
    ];
    let reference = |kind: &&str| {
        let digest = digest(kind)?;
        Some(json!({"kind": kind, "exists": true, "sha256": digest, "location": {"local": "run/x", "hub": null}}))
    };
    json!({"schema_version": 2, "references": kinds.iter().filter_map(reference).collect::<Vec<_>>()})
}

/// E11: a bundle has all nine kinds; what it refers to and nobody here holds is listed as missing.
#[tokio::test]
async fn evidence_bundles_list_their_gaps() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(820).build();
    committed(api, "r", std::slice::from_ref(&checkpoint)).await;
    let stored = kept(api, "r", "run-manifest", &manifest()).await;
    let digest = |kind: &str| match kind {
        "run-manifest" => Some(stored["digest"].as_str().unwrap().to_owned()),
        "checkpoint-header" => Some(sha256(&checkpoint.header)),
        "checkpoint-weights" => Some(sha256(checkpoint.file(SINGLE))),
        other => Some(made_up(other)),
    };
    let told = kept(api, "r", "evidence-bundle", &evidence(digest)).await;
    let gaps = [
        "consortium-manifest",
        "dataset-probe-registry",
        "training-report",
        "privacy-aggregation-report",
        "observability-report",
        "eval-control-report",
    ];
    assert_eq!(told["summary"], json!({"references": 9, "missing": gaps}));
    let incomplete = evidence(|kind| digest(kind).filter(|_| !kind.starts_with("checkpoint-")));
    let problem = api.keep("r", "evidence-bundle", incomplete.to_string()).await.refused(422, "artifact_invalid");
    assert_eq!(problem["fields"]["missing"], json!(["checkpoint-header", "checkpoint-weights"]), "{problem}");
}

/// E12: a release is pinned by digests, has every role, and everything that it names is here.
#[tokio::test]
async fn releases_name_what_is_here() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(830).build();
    api.register("r", json!({})).await;
    let roles = ["config", "checkpoint", "probe", "sketch-seeds", "run-manifest", "settings", "log"];
    let weights = sha256(checkpoint.file(SINGLE));
    let release = |roles: &[&str]| {
        let items: Vec<Value> = roles.iter().map(|role| json!({"role": role, "sha256": weights})).collect();
        json!({"schema_version": 1, "release": "v1", "items": items})
    };
    let keep = async |roles: &[&str]| -> Answer { api.keep("r", "release-bundle", release(roles).to_string()).await };
    let problem = keep(&roles).await.refused(422, "artifact_invalid");
    assert_eq!(problem["fields"]["missing"], json!(roles), "{problem}");
    let problem = keep(&roles[..5]).await.refused(422, "artifact_invalid");
    assert_eq!(problem["fields"]["missing"], json!(["settings", "log"]), "{problem}");
    api.store(&checkpoint).await;
    keep(&roles).await.expect(StatusCode::CREATED);
    comes_back(api, "r", "release-bundle", release(&roles).to_string().as_bytes()).await;
}

/// E13: blanks, order, escapes and the end of the line are as they came; a name of a kind has several spellings.
#[tokio::test]
async fn bytes_stay_as_they_came() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    let good = commitment(&made_up("x"));
    let texts = [
        good.to_string(),
        serde_json::to_string_pretty(&good).unwrap(),
        format!(" \r\n\t{good}\n\n"),
        good.to_string().replace("arm-0", "\\u0061rm-0"),
    ];
    for (text, kind) in
        texts.iter().zip(["dataset-commitment", "DatasetCommitment", "dataset_commitment", "datasetcommitment"])
    {
        let told = api.keep("r", kind, text.clone()).await.expect(StatusCode::CREATED).json();
        assert_eq!(told["kind"], "dataset-commitment");
        comes_back(api, "r", "dataset-commitment", text.as_bytes()).await;
        let head = api.head(told["url"].as_str().unwrap()).await.expect(StatusCode::OK);
        assert_eq!(head.header("content-length"), text.len().to_string());
    }
    let (mut path, mut seen) = ("/v1/runs/r/documents?limit=2".to_owned(), Vec::new());
    loop {
        let page = api.get(&path).await.expect(StatusCode::OK).json();
        seen.extend(page["documents"].as_array().unwrap().iter().map(|one| one["digest"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/runs/r/documents?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, texts.iter().rev().map(|text| sha256(text.as_bytes())).collect::<Vec<_>>());
    let of_kind = api.get("/v1/runs/r/documents?kind=DatasetCommitment").await.json();
    assert_eq!(of_kind["documents"].as_array().unwrap().len(), 4);
    assert_eq!(api.get("/v1/runs/r/documents?kind=eval-report").await.json()["documents"], json!([]));
}

/// G12 where it meets documents: a document that was changed behind the server is given to nobody.
#[tokio::test]
async fn a_changed_document_is_not_served() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    let told = kept(api, "r", "dataset-commitment", &commitment(&made_up("x"))).await;
    assert_eq!(data::change(server.dir(), "update documents set body = bytes('{}')").await, 1);
    for view in ["", "?view=latest"] {
        let path = format!("{}{view}", told["url"].as_str().unwrap());
        api.get(&path).await.refused(500, "checkpoint_integrity");
    }
    assert_eq!(data::number(server.dir(), data::AUDITS).await, 2);
}
