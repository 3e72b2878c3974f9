//! I2: figures under names of our own, which tell what has happened.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use serde_json::json;

use crate::support::checkpoint::CheckpointBuilder;
use crate::support::client::Api;
use crate::support::history::{chain, commit_of};
use crate::support::server::TestServer;

/// The samples by name and labels, after checking the form of the whole.
async fn figures(api: &Api) -> BTreeMap<String, f64> {
    let answer = api.get("/metrics").await.expect(StatusCode::OK);
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            // Lensemble's names stand for something else, so ours have a name space.
            assert!(name.starts_with("registry_"), "{name}");
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn figures_tell_what_has_happened() {
    let server = TestServer::start().await;
    let api = &server.api;
    let rounds = chain(600, 2);
    api.register("r", json!({})).await;
    for round in &rounds {
        api.store(round).await;
        api.commit("r", &commit_of(round, None)).await.expect(StatusCode::CREATED);
    }
    let size: usize = rounds.iter().flat_map(|round| &round.files).map(|(_, bytes)| bytes.len()).sum();
    let rival = CheckpointBuilder::new(77).parent(&rounds[0], 1).build();
    api.store(&rival).await;
    api.commit("r", &commit_of(&rival, None)).await.refused(409, "agg_nondeterministic");
    api.abort("r", &json!({"round_index": 1, "reason_code": "round_failed"})).await.expect(StatusCode::CREATED);
    let session = api.session(&CheckpointBuilder::new(78).build().header).await;
    let file = format!("{}/files/weights.safetensors", rounds[0].path());
    let whole = api.get(&file).await.expect(StatusCode::OK).body.len() as f64;
    api.get_with(&file, "range", "bytes=0-9").await.expect(StatusCode::PARTIAL_CONTENT);
    api.get("/v1/no/such/path").await.expect(StatusCode::NOT_FOUND);

    let figures = figures(api).await;
    let size = size as f64 + rival.files.iter().map(|(_, bytes)| bytes.len() as f64).sum::<f64>();
    for (name, expected) in [
        ("registry_commits_total", 2.0),
        ("registry_aborts_total", 1.0),
        ("registry_refusals_total{code=\"agg_nondeterministic\"}", 1.0),
        ("registry_commit_seconds_count", 3.0),
        ("registry_verify_seconds_count", 3.0),
        ("registry_upload_bytes_total", size),
        ("registry_stored_bytes", size),
        ("registry_download_bytes_total", whole + 10.0),
        ("registry_artifacts", 3.0),
        ("registry_runs", 1.0),
        ("registry_open_sessions", 1.0),
        ("registry_dedup_ratio", 1.0),
        ("registry_requests_total{route=\"/v1/runs/{run}/commits\",method=\"POST\",status=\"409\"}", 1.0),
        ("registry_requests_total{route=\"none\",method=\"GET\",status=\"404\"}", 1.0),
    ] {
        assert_eq!(figures.get(name), Some(&expected), "{name} in {figures:#?}");
    }
    assert!(!figures.keys().any(|name| name.contains(rounds[0].content_hash.as_str())), "a path is no label");
    api.delete(&session).await;
}
