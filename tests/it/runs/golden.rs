//! Every vector that is a document or is checked without being kept, over HTTP: the right ones come back byte for byte,
//! the wrong ones are refused with the right code and leave nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::checkpoint::{CheckpointBuilder, sha256};
use crate::support::client::{Answer, Api};
use crate::support::golden::{Vector, bytes, vectors};
use crate::support::server::TestServer;

fn of(kind: &str, count: usize) -> Vec<Vector> {
    let vectors = vectors(kind);
    assert_eq!(vectors.len(), count, "vectors of kind {kind}");
    vectors
}

/// A run for one document alone.
async fn fresh(api: &Api, name: &str) -> String {
    let run = name.replace('/', ".");
    api.register(&run, json!({})).await;
    run
}

/// A kept document is the bytes that were sent, under their digest.
pub async fn comes_back(api: &Api, run: &str, kind: &str, sent: &[u8]) {
    let digest = sha256(sent);
    let path = format!("/v1/runs/{run}/documents/{kind}/{digest}");
    let answer = api.get(&path).await.expect(StatusCode::OK);
    assert!(answer.body == sent, "{path}");
    assert_eq!(answer.header("etag"), format!("\"{digest}\""));
    assert_eq!(answer.header("content-type"), "application/json");
    let whole = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(sent)));
    assert_eq!(answer.header("repr-digest"), whole, "{path}");
    let known = api.get_with(&path, "if-none-match", answer.header("etag")).await;
    assert_eq!((known.status, known.body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
    let part = api.get_with(&path, "range", "bytes=1-3").await.expect(StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.body, sent[1..4], "{path}");
}

async fn kept(api: &Api, run: &str, kind: &str, sent: &[u8], what: &str) {
    let answer = api.keep(run, kind, sent.to_vec()).await;
    assert_eq!(answer.status, 201, "{what}: {}", answer.text());
    let document = answer.json();
    assert_eq!(answer.header("location"), document["url"], "{what}");
    assert_eq!((&document["digest"], &document["size"]), (&json!(sha256(sent)), &json!(sent.len())), "{what}");
    comes_back(api, run, kind, sent).await;
    let again = api.keep(run, kind, sent.to_vec()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, document), "{what}");
}

async fn refused(api: &Api, run: &str, kind: &str, vector: &Vector) {
    let what = &vector.id;
    let answer = api.keep(run, kind, vector.bytes()).await;
    assert_eq!(answer.status, 422, "{what}: {}", answer.text());
    let problem = answer.problem();
    assert!(vector.codes().contains(&problem["code"].as_str().unwrap()), "{what}: {problem}");
    let path = format!("/v1/runs/{run}/documents/{kind}/{}", sha256(&vector.bytes()));
    api.get(&path).await.refused(404, "registry_not_found");
}

async fn nothing_is_kept(api: &Api, run: &str) {
    let list = api.get(&format!("/v1/runs/{run}/documents")).await.expect(StatusCode::OK).json();
    assert_eq!(list, json!({"documents": [], "next_cursor": null}));
    assert_eq!(api.head_of(run).await["event_id"], 0);
}

/// E1, E2: the hash of a configuration is Lensemble's own.
#[tokio::test]
async fn configurations() {
    let server = TestServer::start().await;
    let mut accepted = 0;
    for vector in of("config-hash", 24) {
        let answer = server.api.post("/v1/config-hash", vector.bytes()).await;
        if vector.accepted() {
            let told = answer.expect(StatusCode::OK).json();
            assert_eq!(told, json!({"config_hash": vector.expect["config_hash"]}), "{}", vector.id);
            accepted += 1;
        } else {
            answer.refused(400, vector.codes()[0]);
        }
    }
    assert_eq!(accepted, 18);
}

/// E1, E3, E10, E13: manifests with every rule that follows from what they say themselves.
#[tokio::test]
async fn manifests() {
    let server = TestServer::start().await;
    let api = &server.api;
    let positive = of("manifest", 7);
    for vector in &positive {
        // Each in a run of its own: in one run a manifest is a revision of the one before.
        let run = fresh(api, &vector.id).await;
        kept(api, &run, "run-manifest", &vector.bytes(), &vector.id).await;
        let list = api.get(&format!("/v1/runs/{run}/documents/run-manifest")).await.expect(StatusCode::OK).json();
        assert_eq!(list["documents"][0]["summary"]["config_hash"], vector.expect["config_hash"], "{}", vector.id);
    }
    let empty = fresh(api, "refused").await;
    let mut accepted = 0;
    for vector in of("manifest-negative", 39) {
        if vector.accepted() {
            let run = fresh(api, &vector.id).await;
            kept(api, &run, "run-manifest", &vector.bytes(), &vector.id).await;
            accepted += 1;
        } else {
            refused(api, &empty, "run-manifest", &vector).await;
        }
    }
    assert_eq!(accepted, 2);
    nothing_is_kept(api, &empty).await;
}

/// E5, E10, E13: both ways in for a DatasetCommitment.
#[tokio::test]
async fn commitments() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (run, documents) = (fresh(api, "bound").await, fresh(api, "kept").await);
    let bind = async |run: &str, vector: &Vector| api.bind(run, &vector.id, Some(0), vector.bytes()).await;
    let mut accepted = 0;
    let all = of("commitment", 3).into_iter().chain(of("commitment-negative", 13));
    let (right, wrong): (Vec<_>, Vec<_>) = all.partition(Vector::accepted);
    for vector in &right {
        let answer = bind(&run, vector).await;
        assert_eq!(answer.status, 201, "{}: {}", vector.id, answer.text());
        let told = answer.json();
        assert_eq!((&told["participant"], &told["from_round"]), (&json!(vector.id), &json!(0)));
        if let Some(root) = vector.expect.get("merkle_root") {
            assert_eq!(told["merkle_root"], *root, "{}", vector.id);
        }
        comes_back(api, &run, "dataset-commitment", &vector.bytes()).await;
        assert_eq!(bind(&run, vector).await.expect(StatusCode::OK).json(), told);
        kept(api, &documents, "dataset-commitment", &vector.bytes(), &vector.id).await;
        accepted += 1;
    }
    let empty = fresh(api, "refused").await;
    for vector in &wrong {
        bind(&empty, vector).await.refused(422, vector.codes()[0]);
        refused(api, &empty, "dataset-commitment", vector).await;
    }
    assert_eq!((accepted, wrong.len()), (4, 12));
    nothing_is_kept(api, &empty).await;
    let list = api.get(&format!("/v1/runs/{empty}/commitments")).await.json();
    assert_eq!(list, json!({"commitments": []}));
}

async fn check_ledger(api: &Api, vector: &Vector, head: Option<&str>) -> Answer {
    let query = head.map_or_else(String::new, |head| format!("?head={head}"));
    api.post(&format!("/v1/ledgers/verify{query}"), vector.bytes()).await
}

/// D7, D8: ledger files, whole and tampered with.
#[tokio::test]
async fn ledgers() {
    let server = TestServer::start().await;
    let api = &server.api;
    let positive = of("ledger", 5);
    for vector in &positive {
        let head = vector.expect["head"].as_str().unwrap();
        let records = vector.expect["record_hashes"].as_array().unwrap().len();
        let whole = json!({"verify_chain": true, "records": records, "head": head, "broken_at": null});
        for expected in [None, Some(head)] {
            let verdict = check_ledger(api, vector, expected).await.expect(StatusCode::OK).json();
            assert_eq!(verdict, whole, "{}", vector.id);
        }
        let other = check_ledger(api, vector, Some(&"0".repeat(64))).await.expect(StatusCode::OK).json();
        assert_eq!((&other["verify_chain"], &other["head"]), (&json!(false), &json!(head)), "{}", vector.id);
    }
    let six = positive.iter().find(|vector| vector.id == "ledger/six-rounds").unwrap();
    let head = six.expect["head"].as_str().unwrap();
    let (mut whole, mut broken, mut malformed) = (0, 0, 0);
    for vector in of("ledger-negative", 30) {
        // Nothing in the file shows that its end is another: whoever asks must know the head.
        let tail = ["tail-truncated", "last-rewritten", "emptied"].iter().any(|name| vector.id.ends_with(name));
        let answer = check_ledger(api, &vector, tail.then_some(head)).await;
        match vector.expect["verify_chain"].as_bool() {
            Some(expected) => {
                let verdict = answer.expect(StatusCode::OK).json();
                assert_eq!(verdict["verify_chain"], expected, "{}", vector.id);
                if tail {
                    let alone = check_ledger(api, &vector, None).await.expect(StatusCode::OK).json();
                    assert_eq!(alone["verify_chain"], true, "{}", vector.id);
                }
                *(if expected { &mut whole } else { &mut broken }) += 1;
            }
            None => {
                let problem = answer.refused(422, vector.expect["code"].as_str().unwrap());
                assert!(problem["fields"]["line"].as_u64().is_some_and(|line| line > 0), "{}: {problem}", vector.id);
                malformed += 1;
            }
        }
    }
    assert_eq!((whole, broken, malformed), (2, 10, 18));
}

/// E6: inclusion proofs, by whoever knows the root.
#[tokio::test]
async fn proofs() {
    let server = TestServer::start().await;
    let ask = async |root: &Value, proof: &Value, count: Value| {
        let body = json!({
            "root": root, "leaf": proof["leaf"], "siblings": proof["siblings"], "path_bits": proof["path_bits"],
            "episode_count": count,
        });
        server.api.post("/v1/proofs/verify", body.to_string()).await
    };
    let rows = |vector: &Vector| serde_json::from_slice::<Vec<Value>>(&vector.bytes()).unwrap();
    let mut proofs = 0;
    for tree in rows(&of("merkle-trees", 1)[0]) {
        let count = tree["leaves"].as_array().unwrap().len();
        for proof in tree["proofs"].as_array().unwrap() {
            let verdict = ask(&tree["root"], proof, json!(count)).await.expect(StatusCode::OK).json();
            assert_eq!(verdict, json!({"included": true}), "{} {proof}", tree["id"]);
            proofs += 1;
        }
    }
    assert_eq!(proofs, 81);
    let negative = rows(&of("merkle-proofs", 1)[0]);
    assert_eq!(negative.len(), 12);
    for row in negative {
        let answer = ask(&row["root"], &row["proof"], row["episode_count"].clone()).await;
        match row["expect"]["result"].as_bool() {
            Some(result) => assert_eq!(answer.expect(StatusCode::OK).json(), json!({"included": result}), "{row}"),
            None => drop(answer.refused(422, row["expect"]["code"].as_str().unwrap())),
        }
    }
}

/// E7, E10, E13: reports of how well a checkpoint does. The vectors name checkpoints that no vector holds, so they are
/// sent twice: as they are, which is refused for that alone, and about a checkpoint that is here.
#[tokio::test]
async fn evaluation_reports() {
    let server = TestServer::start().await;
    let api = &server.api;
    let run = fresh(api, "evaluated").await;
    let checkpoint = CheckpointBuilder::new(1).build();
    api.store(&checkpoint).await;
    for vector in of("eval-report", 3) {
        let named = vector.expect["checkpoint_hash"].as_str().unwrap();
        let problem = api.keep(&run, "eval-report", vector.bytes()).await.refused(422, "evaluation_failed");
        assert_eq!(problem["fields"]["cause"], "unknown_checkpoint", "{}", vector.id);
        assert_eq!(problem["fields"]["checkpoint_hash"], named, "{}", vector.id);
        let text = String::from_utf8(vector.bytes()).unwrap().replace(named, &checkpoint.content_hash);
        kept(api, &run, "eval-report", text.as_bytes(), &vector.id).await;
    }
    let empty = fresh(api, "refused").await;
    for vector in of("eval-report-negative", 18) {
        refused(api, &empty, "eval-report", &vector).await;
    }
    nothing_is_kept(api, &empty).await;
}

/// E8, E10, E13, D11: reports of how far frames have drifted apart, in both shapes.
#[tokio::test]
async fn drift_reports() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (free, empty) = (fresh(api, "free").await, fresh(api, "refused").await);
    for (run, probe) in [("pinned", None), ("otherwise", Some("ab".repeat(32)))] {
        let report: Value = serde_json::from_slice(&bytes("reports/drift.json")).unwrap();
        api.register(run, json!({"probe_hash": probe.map_or(report["probe_hash"].clone(), Into::into)})).await;
    }
    for kind in ["frame-drift-report", "frame-drift-record"] {
        let vector = &of(kind, 1)[0];
        for run in [&*free, "pinned"] {
            kept(api, run, kind, &vector.bytes(), &vector.id).await;
        }
        let problem = api.keep("otherwise", kind, vector.bytes()).await.refused(409, "probe_invalid");
        assert_eq!(problem["invariant"], "INV-PROBE-PIN", "{problem}");
        assert_eq!(problem["fields"]["expected_hash"], "ab".repeat(32), "{problem}");
    }
    for vector in of("frame-drift-negative", 4) {
        refused(api, &empty, "frame-drift-report", &vector).await;
    }
    nothing_is_kept(api, "otherwise").await;
    nothing_is_kept(api, &empty).await;
}
