//! Server-sent events: everything that happens to a run, in order, without a gap, from any place on.

use futures_util::future::{join, join_all};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::events::{Events, Told};
use crate::support::history::{chain, commit_of, commitment, committed, made_up, record, record_hash};
use crate::support::rng::Rng;
use crate::support::server::TestServer;
use crate::support::wait::soon;

/// C9, I3: each kind of news with what it says.
#[tokio::test]
async fn what_happens_is_told_in_order() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(500, 2);
    api.register("r", json!({})).await;
    api.register("other", json!({})).await;
    let mut live = Events::listen(api, "r", "", None).await;
    api.bound("r", "silo-α", None, &made_up("a")).await;
    api.bound("other", "nobody", None, &made_up("a")).await;
    for checkpoint in &line {
        api.store(checkpoint).await;
    }
    api.commit("r", &commit_of(&line[0], None)).await.expect(StatusCode::CREATED);
    let abort = json!({"round_index": 0, "reason_code": "aggregation_failed", "detail": "first\r\n\nsecond"});
    api.abort("r", &abort).await.expect(StatusCode::CREATED);
    let contribution = record(0, &[("silo-α", made_up("a"))], &line[1], None);
    api.commit("r", &commit_of(&line[1], Some(contribution.clone()))).await.expect(StatusCode::CREATED);
    let close = json!({
        "schema_version": 2, "kind": "round_close", "round_index": 0, "global_model_hash": line[1].content_hash,
    });
    let kept = api.keep("r", "round-close", close.to_string()).await.expect(StatusCode::CREATED).json();

    let mut told: Vec<Told> = Vec::new();
    for _ in 0..6 {
        told.push(live.next().await.unwrap());
    }
    let kinds: Vec<(u64, &str)> = told.iter().map(|event| (event.id, event.kind.as_str())).collect();
    let expected = [
        "dataset.committed",
        "checkpoint.committed",
        "round.aborted",
        "checkpoint.committed",
        "round.close",
        "document.added",
    ];
    assert_eq!(kinds, (1..).zip(expected).collect::<Vec<_>>());
    assert_eq!(told[0].data["participant"], "silo-α");
    assert_eq!(
        (&told[1].data["content_hash"], &told[1].data["record_hash"]),
        (&json!(line[0].content_hash), &Value::Null)
    );
    assert_eq!((&told[2].data["detail"], &told[2].data["attempt"]), (&abort["detail"], &json!(1)));
    let round = api.get("/v1/runs/r/rounds/1").await.json();
    for field in ["content_hash", "parent_hash", "round_index", "theta_ref", "phi_ref", "attempt", "record_hash"] {
        assert_eq!(told[3].data[field], round[field], "{field}");
    }
    assert_eq!(told[3].data["record_hash"], record_hash(&contribution));
    assert_eq!(told[4].data, close);
    assert_eq!(told[5].data["digest"], kept["digest"]);

    // From any place on, by the header or by the address; the header is the newer of the two.
    for after in 0..=5 {
        let rest = &told[after..];
        for (query, last) in
            [(format!("?after={after}"), None), (String::new(), Some(after)), ("?after=5".into(), Some(after))]
        {
            let mut again = Events::listen(api, "r", &query, last.map(|last| last as u64)).await;
            for event in rest {
                assert_eq!(again.next().await.as_ref(), Some(event));
            }
        }
    }
    for query in ["?after=x", "?after=-1", "?since=1"] {
        api.get(&format!("/v1/runs/r/events{query}")).await.refused(400, "config_invalid");
    }
    api.get_with("/v1/runs/r/events", "last-event-id", "x").await.refused(400, "config_invalid");
    api.get("/v1/runs/nowhere/events").await.refused(404, "registry_not_found");
}

/// C9: listeners that are cut off at any time and come back with the last id they saw see everything exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_that_come_back_miss_nothing() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(520, 20);
    api.register("r", json!({})).await;
    for checkpoint in &line {
        api.store(checkpoint).await;
    }
    // Round 0 is one piece of news, each later one two.
    let last = 2 * line.len() as u64 - 1;
    let listeners = join_all((0..6).map(async |seed| {
        let (mut rng, mut seen) = (Rng::new(seed), 0);
        while seen < last {
            let mut events = Events::listen(api, "r", "", Some(seen)).await;
            for _ in 0..rng.between(1, 7) {
                if seen == last {
                    break;
                }
                let event = events.next().await.unwrap();
                assert_eq!(event.id, seen + 1);
                seen = event.id;
            }
        }
    }));
    let commits = async {
        for checkpoint in &line {
            api.commit("r", &commit_of(checkpoint, None)).await.expect(StatusCode::CREATED);
        }
    };
    soon("the listeners", join(listeners, commits)).await;
}

/// More news than one page of the database holds.
#[tokio::test]
async fn a_long_history_is_told_whole() {
    let server = TestServer::start().await;
    let api = &server.api;
    api.register("r", json!({})).await;
    for index in 0..230 {
        let body = commitment(&made_up(&index.to_string())).to_string();
        api.bind("r", "p", Some(index), body).await.expect(StatusCode::CREATED);
    }
    let mut events = Events::listen(api, "r", "?after=0", None).await;
    for index in 0..230 {
        let event = events.next().await.unwrap();
        assert_eq!((event.id, &event.data["from_round"]), (index + 1, &json!(index)));
    }
}

/// A server that stops ends its streams, and a restarted one goes on with the numbers.
#[tokio::test]
async fn streams_end_with_the_server_and_go_on_after_it() {
    let mut server = TestServer::start().await;
    let line = chain(560, 2);
    committed(&server.api, "r", &line[..1]).await;
    let mut events = Events::listen(&server.api, "r", "?after=0", None).await;
    assert_eq!(events.next().await.unwrap().id, 1);
    let (_, end) = join(server.stop(), events.next()).await;
    assert_eq!(end, None);
    server.resume().await;
    let api = &server.api;
    api.store(&line[1]).await;
    let mut events = Events::listen(api, "r", "", Some(1)).await;
    api.commit("r", &commit_of(&line[1], None)).await.expect(StatusCode::CREATED);
    assert_eq!((events.next().await.unwrap().id, events.next().await.unwrap().id), (2, 3));
}
