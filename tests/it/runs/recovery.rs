//! A coordinator that has lost its memory, and a server that was killed.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::checkpoint::SINGLE;
use crate::support::history::{chain, commit_of, made_up, record, record_hash};
use crate::support::process::ServerProcess;

/// D12: after the server was killed in the middle of the next upload, the head says where to go on: round, checkpoint,
/// the end of the ledger, and the session that holds what had arrived.
#[tokio::test]
async fn the_head_says_how_to_go_on() {
    let mut server = ServerProcess::start();
    let api = server.api.clone();
    let line = chain(600, 3);
    let roots = [("a", made_up("a"))];
    api.register("r", json!({})).await;
    api.bound("r", "a", Some(0), &roots[0].1).await;
    let mut tail: Option<String> = None;
    for (round, checkpoint) in line[..2].iter().enumerate() {
        api.store(checkpoint).await;
        let record = round.checked_sub(1).map(|t| record(t as u64, &roots, checkpoint, tail.as_deref()));
        tail = record.as_ref().map(record_hash);
        api.commit("r", &commit_of(checkpoint, record)).await.expect(StatusCode::CREATED);
    }
    let session = api.session(&line[2].header).await;
    let data = line[2].file(SINGLE);
    api.append(&session, SINGLE, data, 0, 150).await;
    let before = api.head_of("r").await;

    server.kill();
    server.resume();
    let api = &server.api;
    let head = api.head_of("r").await;
    assert_eq!(head["open_sessions"][0]["content_hash"], line[2].content_hash.as_str());
    // Only the time at which the session ends has moved with the last byte, if at all.
    let without_times = |mut head: Value| {
        head["open_sessions"][0]["expires_at"].take();
        head
    };
    assert_eq!(without_times(head.clone()), without_times(before));
    assert_eq!(
        (&head["round_index"], &head["ledger_tail"], &head["resume"]),
        (&json!(1), &json!(tail), &json!("warm-restart"))
    );

    // With nothing but the head and its own checkpoint a coordinator finishes the round.
    let found = head["open_sessions"][0]["url"].as_str().unwrap();
    assert_eq!(found, session);
    let stored = usize::try_from(api.offset(found, SINGLE).await).unwrap();
    assert_eq!(stored, 150);
    api.append(found, SINGLE, data, stored, data.len()).await;
    let mut body = commit_of(&line[2], Some(record(1, &roots, &line[2], head["ledger_tail"].as_str())));
    body["upload"] = head["open_sessions"][0]["id"].clone();
    let round = api.commit("r", &body).await.expect(StatusCode::CREATED).json();
    assert_eq!(round["round_index"], 2);

    // The same commit once more, after another crash, is the same round.
    server.kill();
    server.resume();
    assert_eq!(server.api.commit("r", &body).await.expect(StatusCode::OK).json(), round);
    let head = server.api.head_of("r").await;
    assert_eq!((&head["ledger_count"], &head["open_sessions"]), (&json!(2), &json!([])));
    let verdict = server.api.post("/v1/ledgers/verify", server.api.ledger("r").await).await.json();
    assert_eq!((&verdict["verify_chain"], &verdict["head"]), (&json!(true), &round["record_hash"]));
}
