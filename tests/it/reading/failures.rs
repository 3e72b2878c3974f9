//! When the registry itself fails: said in fixed words, and over when its cause is.

use std::fs;

use super::resource::{checkpoint, resources};
use crate::support::checkpoint::CheckpointBuilder;
use crate::support::data;
use crate::support::server::TestServer;

#[tokio::test]
async fn a_store_that_is_gone_is_told_without_its_inside() {
    let server = TestServer::start().await;
    let api = &server.api;
    let (stored, new) = (checkpoint(1), CheckpointBuilder::new(2).build());
    api.store(&stored).await;
    let (blobs, away) = (server.dir().join("blobs"), server.dir().join("away"));
    fs::rename(&blobs, &away).unwrap();
    let unready = api.get("/readyz").await;
    unready.refused(503, "registry_unavailable");
    assert!(unready.header("retry-after").parse::<u32>().unwrap() > 0);
    assert_eq!(api.get("/healthz").await.status, 200);
    for answer in [api.push(&new).await, api.store_by_session_until_refused(&new).await] {
        let text = answer.refused(500, "internal").to_string();
        for inside in ["blobs", "cairn-it", "os error", "No such file", "sqlite", ".rs"] {
            assert!(!text.contains(inside), "{text}");
        }
    }
    fs::rename(&away, &blobs).unwrap();
    assert_eq!(api.get("/readyz").await.status, 200);
    api.store(&new).await;
    api.check(&stored).await;
}

/// The header lies in the database, and is bytes that can change as well.
#[tokio::test]
async fn a_header_that_changed_in_the_database_is_not_served() {
    let mut server = TestServer::start().await;
    let checkpoint = checkpoint(3);
    server.api.store(&checkpoint).await;
    server.stop().await;
    let change = "update artifacts set header = bytes(replace(text(header), '2026-06-11T09', '2026-06-11T08'))";
    assert_eq!(data::change(server.dir(), change).await, 1);
    server.resume().await;
    let api = &server.api;
    // Those that hold the header's bytes, or are made with its help.
    let with_header = |path: &str| !path.contains("/files/");
    for resource in resources(&checkpoint) {
        let answer = api.get(&resource.path).await;
        if with_header(&resource.path) {
            answer.refused(500, "checkpoint_integrity");
        } else {
            assert!(answer.status == 200 && answer.body == resource.bytes, "{}", resource.path);
        }
    }
    api.verify(&checkpoint.path(), "").await.refused(500, "checkpoint_integrity");
    assert!(data::number(server.dir(), data::AUDITS).await > 0);
}
