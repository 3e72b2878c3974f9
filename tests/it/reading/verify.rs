//! Recomputing on demand, and the chain of parents.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::resource::checkpoint;
use crate::support::checkpoint::CheckpointBuilder;
use crate::support::client::send;
use crate::support::data;
use crate::support::server::TestServer;

#[tokio::test]
async fn verify_recomputes_and_says_so() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = checkpoint(1);
    let stored = api.push(&checkpoint).await.expect(StatusCode::CREATED).json();
    assert_eq!(stored["verified"]["how"], "upload");
    let request = format!(r#"{{"expected_hash":"{}"}}"#, checkpoint.content_hash);
    for body in ["", "{}", r#"{"expected_hash":null}"#, &request] {
        let answer = api.verify(&checkpoint.path(), body.to_owned()).await.expect(StatusCode::OK).json();
        assert_eq!(answer["ok"], true);
        assert_eq!((&answer["files"], &answer["groups"]), (&stored["files"], &stored["groups"]));
        let shown = api.get(&checkpoint.path()).await.json();
        assert_eq!(shown["verified"], answer["verified"]);
        assert_eq!(shown["verified"]["how"], "verify");
        assert!(shown["verified"]["at"].as_str().unwrap() > stored["verified"]["at"].as_str().unwrap());
    }
    for body in ["[]", "{", "null", r#"{"expected":"x"}"#, r#"{"expected_hash":7}"#, "\"secret\"", &"[".repeat(60_000)]
    {
        let problem = api.verify(&checkpoint.path(), body.to_owned()).await.refused(400, "config_invalid");
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }
    api.verify(&checkpoint.path(), vec![b' '; 70_000]).await.refused(413, "registry_too_large");
    api.verify(&format!("/v1/artifacts/{}", "1".repeat(64)), "").await.refused(404, "registry_not_found");
}

#[tokio::test]
async fn verify_finds_what_nobody_has_read() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = checkpoint(2);
    api.store(&checkpoint).await;
    // In `"format":"pt"` as well, which no content hash covers and every reader accepts.
    let format = |file: &[u8]| file.windows(4).position(|text| text == b"\"pt\"").unwrap() as u64 + 2;
    for at in [None, Some(0), Some(8), Some(20), Some(5_000), Some(100_000)] {
        let large =
            data::blobs(server.dir()).into_iter().find(|path| path.metadata().unwrap().len() > 100_000).unwrap();
        data::flip(&large, at.unwrap_or_else(|| format(&std::fs::read(&large).unwrap())));
        let problem = api.verify(&checkpoint.path(), "").await.refused(500, "checkpoint_integrity");
        assert!(problem["remediation"].as_str().unwrap().contains("Push the artifact again"), "{problem}");
        assert_eq!(data::number(server.dir(), "select count(*) from blobs where damaged_at is not null").await, 1);
        api.get(&checkpoint.path()).await.refused(500, "checkpoint_integrity");
        assert_eq!(api.push(&checkpoint).await.status, 200);
        api.check(&checkpoint).await;
    }
}

#[tokio::test]
async fn lineage_follows_parents_and_names_what_is_missing() {
    let server = TestServer::start().await;
    let api = &server.api;
    let zero = CheckpointBuilder::new(1).build();
    let one = CheckpointBuilder::new(2).parent(&zero, 1).build();
    let two = CheckpointBuilder::new(3).parent(&one, 2).build();
    let fork = CheckpointBuilder::new(4).parent(&one, 2).build();
    let lineage = async |path: String| api.get(&format!("{path}/lineage")).await.expect(StatusCode::OK).json();
    let entry = |checkpoint: &crate::support::checkpoint::Checkpoint, round: u64| {
        let header: serde_json::Value = serde_json::from_slice(&checkpoint.header).unwrap();
        json!({"content_hash": checkpoint.content_hash, "parent_hash": header["parent_hash"], "round_index": round})
    };
    // Pushed from the end, so that the chain is open at first.
    api.store(&two).await;
    let told = lineage(two.path()).await;
    assert_eq!(told["ancestors"], json!([entry(&two, 2)]));
    assert_eq!((&told["complete"], &told["missing_parent"]), (&json!(false), &json!(one.content_hash)));
    for checkpoint in [&one, &zero, &fork] {
        api.store(checkpoint).await;
    }
    let told = lineage(two.path()).await;
    assert_eq!(told["ancestors"], json!([entry(&two, 2), entry(&one, 1), entry(&zero, 0)]));
    assert_eq!((&told["complete"], &told["children"]), (&json!(true), &json!([])));
    assert_eq!(told.get("missing_parent"), None);
    let mut children = vec![entry(&two, 2), entry(&fork, 2)];
    children.sort_by_key(|child| child["content_hash"].to_string());
    assert_eq!(lineage(one.path()).await["children"], json!(children));
    assert_eq!(api.get(&two.path()).await.json()["parent_hash"], one.content_hash.as_str());
    let delete = send(api.request(Method::DELETE, &two.path())).await;
    delete.refused(405, "registry_method");
    assert!(delete.header("allow").contains("PUT"), "{:?}", delete.headers);
}
