//! The chains among the vectors, committed member by member.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::archive;
use crate::support::client::{Answer, Api};
use crate::support::golden::{Vector, vectors};
use crate::support::server::TestServer;

async fn push(api: &Api, vector: &Vector, member: &Value) -> Answer {
    let files = vector.checkpoint(member["path"].as_str().unwrap());
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    api.put(member["content_hash"].as_str().unwrap(), archive::archive(files)).await
}

/// The reason of the first refusal and the member it was for; none when all are committed.
async fn commit(api: &Api, run: &str, vector: &Vector) -> Option<(usize, Value)> {
    for (index, member) in vector.members.iter().enumerate() {
        let pushed = push(api, vector, member).await;
        if !pushed.status.is_success() {
            assert_eq!(pushed.status, StatusCode::CONFLICT, "{}: {}", vector.id, pushed.text());
            return Some((index, pushed.problem()));
        }
        let body = json!({
            "content_hash": member["content_hash"], "round_index": member["round_index"],
            "parent_hash": member["parent_hash"],
        });
        let answer = api.commit(run, &body).await;
        if !answer.status.is_success() {
            assert_eq!(answer.status, StatusCode::CONFLICT, "{}: {}", vector.id, answer.text());
            return Some((index, answer.problem()));
        }
        assert_eq!(answer.status, StatusCode::CREATED, "{}: {}", vector.id, answer.text());
        assert_eq!(answer.json()["round_index"], member["round_index"], "{}", vector.id);
    }
    None
}

/// D2, D3, D6, A4, A8: what follows what, with the reasons that the vectors give.
#[tokio::test]
async fn chains_are_committed_as_far_as_they_are_chains() {
    let server = TestServer::start().await;
    let api = &server.api;
    let chains = vectors("chain");
    assert_eq!(chains.len(), 12);
    let (mut accepted, mut refused) = (0, 0);
    for vector in &chains {
        let run = vector.id.replace('/', ".");
        api.register(&run, json!({})).await;
        let refusal = commit(api, &run, vector).await;
        if vector.id == "chain/two-roots" {
            // Both are right, as two lineages: one run has one beginning, and the other root begins another run.
            let (member, problem) = refusal.unwrap();
            assert_eq!((member, &problem["code"]), (1, &json!("agg_nondeterministic")));
            api.register("chain.second-root", json!({})).await;
            let body = json!({"content_hash": vector.members[1]["content_hash"], "round_index": 0});
            api.commit("chain.second-root", &body).await.expect(StatusCode::CREATED);
            accepted += 1;
            continue;
        }
        let Some((member, problem)) = refusal else {
            assert!(vector.accepted(), "{}", vector.id);
            accepted += 1;
            continue;
        };
        assert!(!vector.accepted(), "{}: {problem}", vector.id);
        assert_eq!(vector.expect["member"], member, "{}: {problem}", vector.id);
        assert_eq!(problem["fields"]["reason"], vector.expect["reason"], "{}: {problem}", vector.id);
        // What was committed before stands, and whoever is refused is told what it is.
        let head = api.head_of(&run).await;
        let before = &vector.members[member - 1];
        assert_eq!(
            (&head["round_index"], &head["content_hash"]),
            (&before["round_index"], &before["content_hash"]),
            "{}",
            vector.id
        );
        if vector.expect["reason"] != "metadata_conflict" {
            assert_eq!(problem["fields"]["head_round"], before["round_index"], "{}: {problem}", vector.id);
            assert_eq!(problem["fields"]["head_content_hash"], before["content_hash"], "{}: {problem}", vector.id);
        }
        refused += 1;
    }
    assert_eq!((accepted, refused), (3, 9));
}
