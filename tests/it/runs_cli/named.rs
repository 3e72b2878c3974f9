//! What the server says of heads and locators, as far as those who follow a run rely on it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder};
use crate::support::client::{Answer, Api, send};
use crate::support::server::TestServer;

async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    send(api.request(Method::POST, path).header("content-type", "application/json").body(body.to_string())).await
}

/// A run of rounds that all have the same weights.
async fn frozen(api: &Api, rounds: u64) {
    let run = json!({"run": "r", "consortium": "c", "wmcp_version": "wmcp-1.0.0"});
    post(api, "/v1/runs", &run).await.expect(StatusCode::CREATED);
    let mut parent: Option<Checkpoint> = None;
    for index in 0..rounds {
        let builder = CheckpointBuilder::new(7);
        let checkpoint = match &parent {
            Some(parent) => builder.parent(parent, index),
            None => builder,
        }
        .build();
        api.store(&checkpoint).await;
        let commit = json!({
            "content_hash": checkpoint.content_hash,
            "round_index": index,
            "parent_hash": parent.map(|parent| parent.content_hash),
        });
        post(api, "/v1/runs/r/commits", &commit).await.expect(StatusCode::CREATED);
        parent = Some(checkpoint);
    }
}

#[tokio::test]
async fn a_locator_leads_to_its_own_round_also_where_others_have_the_same_group() {
    let server = TestServer::start().await;
    // More rounds than there are holders of a group in one look.
    frozen(&server.api, 11).await;
    for (round, group) in [(0, "encoder"), (1, "predictor"), (10, "predictor")] {
        let locator = format!("artifact://c/r/round-{round:05}/{group}");
        let resolved = server.api.get(&format!("/v1/runs/r/resolve?locator={locator}")).await;
        let resolved = resolved.expect(StatusCode::OK).json();
        assert_eq!((&resolved["round_index"], &resolved["group"]), (&json!(round), &json!(group)));
        assert_eq!(resolved["locator"], *locator);
        let told = server.api.get(&format!("/v1/runs/r/rounds/{round}")).await.expect(StatusCode::OK).json();
        assert_eq!(resolved["artifact"], told["content_hash"]);
    }
}
