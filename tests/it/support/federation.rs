//! A federation: a run, its participants and their data, and the rounds that they make.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::checkpoint::{Checkpoint, CheckpointBuilder, sha256};
use super::client::{Answer, Api, try_send};
use super::history::segment;

pub const RUN: &str = "story-1";

/// A federation of three, and the checkpoints that it has committed so far.
pub struct Federation {
    pub participants: Vec<&'static str>,
    pub rounds: Vec<Checkpoint>,
}

impl Federation {
    /// Registers the run and what the participants have committed to.
    pub async fn found(api: &Api) -> Self {
        let participants = vec!["acme", "silo-α", "zeta"];
        let pins = json!({
            "run": RUN, "consortium": "story", "wmcp_version": "wmcp-1.0.0",
            "participants": participants, "min_participants": 2, "visibility": "members",
        });
        post(api, "/v1/runs", pins.to_string()).await.expect(StatusCode::CREATED);
        for participant in &participants {
            let path = format!("/v1/runs/{RUN}/participants/{}/commitments?from_round=0", segment(participant));
            post(api, &path, commitment(participant)).await.expect(StatusCode::CREATED);
        }
        Self { participants, rounds: Vec::new() }
    }

    /// The checkpoint that would be the next round; another seed makes another one.
    pub fn next(&self, seed: u64) -> Checkpoint {
        // The same tensors in every round; only their values change.
        let builder = CheckpointBuilder::new(seed);
        match self.rounds.last() {
            None => builder.build(),
            Some(last) => builder.parent(last, self.rounds.len() as u64).build(),
        }
    }

    /// The body of the commit of a checkpoint, with the record of the round before.
    pub async fn commit_body(&self, api: &Api, checkpoint: &Checkpoint) -> String {
        let index = self.rounds.len() as u64;
        let parent = self.rounds.last().map(|last| last.content_hash.clone());
        let mut body = json!({
            "content_hash": checkpoint.content_hash, "round_index": index, "parent_hash": parent,
        });
        if index > 0 {
            let head = api.get(&format!("/v1/runs/{RUN}/head")).await.expect(StatusCode::OK).json();
            body["record"] = self.record(index - 1, &checkpoint.content_hash, &head["ledger_tail"]);
        }
        body.to_string()
    }

    /// The record of a round.
    pub fn record(&self, round: u64, made: &str, tail: &Value) -> Value {
        let roots: serde_json::Map<String, Value> =
            self.participants.iter().map(|name| ((*name).to_owned(), json!(root(name)))).collect();
        json!({
            "schema_version": 1, "round_index": round, "participants": self.participants, "dataset_roots": roots,
            "global_model_hash": made, "prev_record_hash": tail,
        })
    }

    /// Pushes and commits the next round.
    pub async fn advance(&mut self, api: &Api, seed: u64) -> Answer {
        let checkpoint = self.next(seed);
        api.store(&checkpoint).await;
        let body = self.commit_body(api, &checkpoint).await;
        let answer = commit(api, body).await;
        self.rounds.push(checkpoint);
        answer
    }
}

/// What a participant's data set is bound to.
pub fn root(participant: &str) -> String {
    sha256(participant.as_bytes())
}

/// A DatasetCommitment as Lensemble writes it.
pub fn commitment(participant: &str) -> String {
    format!(
        r#"{{"schema_version":1,"merkle_root":"{}","episode_count":2,"hash_algorithm":"sha256","wmcp_version":"wmcp-1.0.0","embodiment_ids":["arm-0"],"created_at":"2026-06-11T14:12:38.127070Z"}}"#,
        root(participant)
    )
}

pub async fn post(api: &Api, path: &str, body: String) -> Answer {
    try_post(api, path, body).await.unwrap()
}

pub async fn try_post(api: &Api, path: &str, body: String) -> Result<Answer, reqwest::Error> {
    try_send(api.request(reqwest::Method::POST, path).header("content-type", "application/json").body(body)).await
}

pub async fn commit(api: &Api, body: String) -> Answer {
    post(api, &format!("/v1/runs/{RUN}/commits"), body).await
}

pub async fn head(api: &Api) -> Value {
    api.get(&format!("/v1/runs/{RUN}/head")).await.expect(StatusCode::OK).json()
}

pub async fn audit(api: &Api, tier: &str) -> Value {
    api.get(&format!("/v1/runs/{RUN}/audit?tier={tier}")).await.expect(StatusCode::OK).json()
}

/// The codes of an audit's findings.
pub fn codes(audit: &Value) -> Vec<&str> {
    audit["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}
