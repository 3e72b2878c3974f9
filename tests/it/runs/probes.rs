//! E9: the public probe, over HTTP: kept byte for byte when it is one, and nothing of it when it is not.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::client::{Answer, Api, send};
use crate::support::data;
use crate::support::golden::{bytes, vectors};
use crate::support::server::TestServer;

async fn keep(api: &Api, run: &str, probe: impl Into<reqwest::Body>) -> Answer {
    let request = api.request(Method::POST, &format!("/v1/runs/{run}/documents/public-probe"));
    send(request.header("content-type", "application/octet-stream").body(probe)).await
}

/// The metadata of a probe with one text in it replaced by another of the same length.
fn with(probe: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = probe.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    [&probe[..at], to.as_bytes(), &probe[at + to.len()..]].concat()
}

/// Every vector: two probes, and one with a byte changed.
#[tokio::test]
async fn golden_probes_are_kept_and_given_back_and_others_are_not() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    let probes = vectors("probe");
    assert_eq!(probes.len(), 2);
    for vector in &probes {
        let probe = vector.bytes();
        let kept = keep(api, "r", probe.clone()).await.expect(StatusCode::CREATED);
        let document = kept.json();
        assert_eq!(document["kind"], "public-probe");
        assert_eq!(document["summary"]["content_hash"], vector.expect["content_hash"], "{document}");
        keep(api, "r", probe.clone()).await.expect(StatusCode::OK);
        let url = document["url"].as_str().unwrap();
        let back = api.get(url).await.expect(StatusCode::OK);
        assert!(back.body == probe);
        assert_eq!(back.header("content-type"), "application/octet-stream");
        let part = api.get_with(url, "range", "bytes=8-15").await.expect(StatusCode::PARTIAL_CONTENT);
        assert_eq!(part.body, probe[8..16]);
        let tag = back.header("etag").to_owned();
        api.get_with(url, "if-none-match", &tag).await.expect(StatusCode::NOT_MODIFIED);
    }
    let negative = vectors("probe-negative");
    assert_eq!(negative.len(), 1);
    keep(api, "r", negative[0].bytes()).await.refused(422, "probe_invalid");
    assert_eq!(data::number(server.dir(), data::BLOB_ROWS).await, 2);
    data::assert_no_orphans(server.dir()).await;

    let audit =
        async |tier: &str| api.get(&format!("/v1/runs/r/audit?tier={tier}")).await.expect(StatusCode::OK).json();
    for tier in ["quick", "full", "deep"] {
        let report = audit(tier).await;
        assert_eq!(report["ok"], true, "{report}");
    }
    let files = data::blobs(server.dir());
    data::flip(&files[0], 20);
    let report = audit("deep").await;
    assert_eq!((&report["failures"], report["findings"][0]["code"].as_str()), (&json!(1), Some("BLOB_HASH_MISMATCH")));
    std::fs::remove_file(&files[0]).unwrap();
    let report = audit("quick").await;
    assert_eq!((&report["failures"], report["findings"][0]["code"].as_str()), (&json!(1), Some("BLOB_MISSING")));
}

#[tokio::test]
async fn what_is_no_probe_leaves_nothing() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    let probe = bytes("probes/fp32.safetensors");
    let legacy = with(&probe, "sha256-lensemble-public-probe-v2", "sha256-lensemble-public-probe-v1");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("no safetensors", b"not a probe at all".to_vec()),
        ("cut in the header", probe[..40].to_vec()),
        ("cut in the data", probe[..probe.len() - 1].to_vec()),
        ("trailing", [&probe[..], b"x"].concat()),
        ("legacy", legacy),
        ("another type of index", with(&probe, "\"I64\"", "\"U64\"")),
        ("another tensor", with(&probe, "landmark_targets", "landmark_Targets")),
        ("a hash of nothing", with(&probe, "5a0e2de2fc51af7a", "6a0e2de2fc51af7a")),
    ];
    for (name, bytes) in cases {
        let problem = keep(api, "r", bytes).await.refused(422, "probe_invalid");
        assert!(!problem["message"].as_str().unwrap().is_empty(), "{name}");
    }
    data::assert_nothing_left(server.dir(), "refused probes").await;
    assert_eq!(api.get("/v1/runs/r/documents").await.json()["documents"], json!([]));
}

/// A pinned run takes its own probe only, and one with enough landmarks.
#[tokio::test]
async fn a_pinned_run_takes_its_own_probe_only() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (fp32, bf16) = (bytes("probes/fp32.safetensors"), bytes("probes/bf16-points.safetensors"));
    let hash = |path: &str| {
        let probes = vectors("probe");
        let vector = probes.iter().find(|vector| vector.path == path).unwrap();
        vector.expect["content_hash"].clone()
    };
    let (own, other) = (hash("probes/fp32.safetensors"), hash("probes/bf16-points.safetensors"));
    api.register("own", json!({"probe_hash": own})).await;
    api.register("other", json!({"probe_hash": other})).await;
    keep(api, "own", bf16.clone()).await.refused(409, "probe_invalid");
    keep(api, "other", fp32.clone()).await.refused(409, "probe_invalid");
    // The golden probes have three landmarks of four dimensions: right hashes, and too few to fix a frame.
    let problem = keep(api, "own", fp32).await.problem();
    assert_eq!(problem["code"], "probe_invalid", "{problem}");
    assert_eq!(problem["fields"]["num_landmarks"], 3, "{problem}");
    data::assert_nothing_left(server.dir(), "probes of other runs").await;
    keep(api, "nowhere", bf16).await.refused(404, "registry_not_found");
}
