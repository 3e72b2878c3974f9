//! Runs as a coordinator drives them: registered, committed round by round, with records that are made here anew.

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Map, Value, json};

use super::checkpoint::{Checkpoint, CheckpointBuilder, sha256};
use super::client::{Answer, Api, send};

pub const WMCP: &str = "wmcp-1.0.0";

/// Percent-encodes what cannot stand in a path segment or a parameter.
pub fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl Api {
    pub fn post_request(&self, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.request(Method::POST, path).header(CONTENT_TYPE, "application/json").body(body)
    }

    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        send(self.post_request(path, body)).await
    }

    /// Registers a run that must be new, with more pins or other ones.
    pub async fn register(&self, run: &str, pins: Value) {
        let mut body = json!({"run": run, "consortium": "acme", "wmcp_version": WMCP});
        body.as_object_mut().unwrap().extend(pins.as_object().unwrap().clone());
        self.post("/v1/runs", body.to_string()).await.expect(StatusCode::CREATED);
    }

    pub async fn head_of(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}/head")).await.expect(StatusCode::OK).json()
    }

    pub async fn commit(&self, run: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/runs/{run}/commits"), body.to_string()).await
    }

    /// Keeps a document.
    pub async fn keep(&self, run: &str, kind: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.post(&format!("/v1/runs/{run}/documents/{kind}"), body).await
    }

    /// Commits a participant to a data set.
    pub async fn bind(
        &self,
        run: &str,
        participant: &str,
        from: Option<u64>,
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let from = from.map_or_else(String::new, |round| format!("?from_round={round}"));
        self.post(&format!("/v1/runs/{run}/participants/{}/commitments{from}", segment(participant)), body).await
    }

    /// Commits a participant to the data set with this root, which must be accepted.
    pub async fn bound(&self, run: &str, participant: &str, from: Option<u64>, root: &str) {
        self.bind(run, participant, from, commitment(root).to_string()).await.expect(StatusCode::CREATED);
    }

    pub async fn abort(&self, run: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/runs/{run}/aborts"), body.to_string()).await
    }

    /// The ledger as it is exported.
    pub async fn ledger(&self, run: &str) -> Vec<u8> {
        self.get(&format!("/v1/runs/{run}/ledger")).await.expect(StatusCode::OK).body
    }
}

/// What is sent to commit a checkpoint.
pub fn commit_of(checkpoint: &Checkpoint, record: Option<Value>) -> Value {
    let header: Value = serde_json::from_slice(&checkpoint.header).unwrap();
    let mut body = json!({
        "content_hash": checkpoint.content_hash,
        "round_index": header["round_index"],
        "parent_hash": header["parent_hash"],
    });
    if let Some(record) = record {
        body["record"] = record;
    }
    body
}

/// A DatasetCommitment to a root.
pub fn commitment(root: &str) -> Value {
    json!({
        "schema_version": 1, "merkle_root": root, "episode_count": 3, "hash_algorithm": "sha256",
        "wmcp_version": WMCP, "embodiment_ids": ["arm-0"], "created_at": "2026-06-11T14:12:38.127070Z",
    })
}

/// A root, or any other hash, that nothing else has.
pub fn made_up(what: &str) -> String {
    sha256(what.as_bytes())
}

/// The ContributionRecord of the round that made a checkpoint.
pub fn record(round: u64, roots: &[(&str, String)], made: &Checkpoint, prev: Option<&str>) -> Value {
    let mut sorted = roots.to_vec();
    sorted.sort();
    let participants: Vec<&str> = sorted.iter().map(|(name, _)| *name).collect();
    let roots: Map<String, Value> = sorted.iter().map(|(name, root)| ((*name).to_owned(), json!(root))).collect();
    json!({
        "schema_version": 1, "round_index": round, "participants": participants, "dataset_roots": roots,
        "global_model_hash": made.content_hash, "prev_record_hash": prev,
    })
}

/// A record's hash, for names that Python and serde spell alike: all without control characters.
pub fn record_hash(record: &Value) -> String {
    let mut text = b"lensemble/provenance/ledger-record/v1\0".to_vec();
    text.extend_from_slice(record.to_string().as_bytes());
    sha256(&text)
}

/// Checkpoints of one model, each the child of the one before: rounds 0 to `count - 1`.
pub fn chain(seed: u64, count: u64) -> Vec<Checkpoint> {
    let mut chain: Vec<Checkpoint> = Vec::new();
    for round in 0..count {
        let builder = CheckpointBuilder::new(seed + round);
        let builder = match chain.last() {
            Some(parent) => builder.parent(parent, round),
            None => builder,
        };
        chain.push(builder.build());
    }
    chain
}

/// A run that has committed a chain without records.
pub async fn committed(api: &Api, run: &str, chain: &[Checkpoint]) {
    api.register(run, json!({})).await;
    for checkpoint in chain {
        api.push(checkpoint).await;
        api.commit(run, &commit_of(checkpoint, None)).await.expect(StatusCode::CREATED);
    }
}
