//! A participant that joins a round, an auditor that looks at one, a client of a hub that checks references: from the
//! head to the bytes.

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::checkpoint::{SINGLE, sha256};
use crate::support::history::{chain, commit_of, committed, segment};
use crate::support::server::TestServer;

/// C1, C4, C5: the groups of the head by their hash, in ranges that several connections fetch, and once only.
#[tokio::test]
async fn a_participant_joins_from_the_head_alone() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(700, 2);
    committed(api, "r", &line).await;
    let head = api.head_of("r").await;
    for (field, (name, bytes)) in ["theta_ref", "phi_ref"].iter().zip(&line[1].groups) {
        let hash = head[field]["content_hash"].as_str().unwrap();
        assert_eq!(hash, sha256(bytes), "{name}");
        let path = format!("/v1/params/{hash}");
        let told = api.head(&path).await.expect(StatusCode::OK);
        assert_eq!(told.header("content-length"), bytes.len().to_string());
        let size = bytes.len();
        let parts = join_all((0..4).map(async |part| {
            let (from, end) = (part * size / 4, (part + 1) * size / 4);
            let range = format!("bytes={from}-{}", end - 1);
            api.get_with(&path, "range", &range).await.expect(StatusCode::PARTIAL_CONTENT).body
        }));
        assert!(parts.await.concat() == *bytes, "{name} in four parts");
        assert_eq!(api.get_with(&path, "range", "bytes=0-0").await.body, bytes[..1]);
        let past = api.get_with(&path, "range", &format!("bytes={size}-")).await;
        past.refused(416, "registry_range");
        assert_eq!(past.header("content-range"), format!("bytes */{size}"));
        let again = api.get_with(&path, "if-none-match", told.header("etag")).await;
        assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0));
        assert!(told.header("cache-control").contains("immutable"));
    }
}

/// C3: a hash that nobody holds is told as such; a client makes the library's integrity error of it.
#[tokio::test]
async fn an_unknown_hash_is_not_found() {
    let server = TestServer::start().await;
    let api = &server.api;
    committed(api, "r", &chain(710, 1)).await;
    let unknown = "0".repeat(64);
    for path in [
        format!("/v1/params/{unknown}"),
        format!("/v1/artifacts/{unknown}"),
        format!("/v1/artifacts/{unknown}/archive.tar"),
        format!("/v1/runs/r/resolve?content_hash={unknown}"),
        format!("/v1/runs/r/documents/run-manifest/{unknown}"),
        "/v1/runs/r/rounds/1".into(),
        "/v1/runs/r/rounds/-1".into(),
        "/v1/runs/r/rounds/+0".into(),
        "/v1/runs/r/rounds/18446744073709551615".into(),
        "/v1/runs/r/rounds/99999999999999999999".into(),
        "/v1/runs/r/resolve?locator=artifact%3A%2F%2Fround-00001%2Fencoder".into(),
        "/v1/runs/r/resolve?locator=artifact%3A%2F%2Facme%2Fother%2Fround-00000%2Fencoder".into(),
        "/v1/runs/r/resolve?locator=artifact%3A%2F%2Fother%2Fr%2Fround-00000%2Fencoder".into(),
    ] {
        api.get(&path).await.refused(404, "registry_not_found");
    }
}

/// C6: every form of a locator leads to the group; the hash beside it decides, and a pair that contradicts itself is an
/// error with an audit record.
#[tokio::test]
async fn locators_are_hints_and_hashes_decide() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(720, 2);
    committed(api, "r", &line).await;
    let hash = |round: usize, group: usize| sha256(&line[round].groups[group].1);
    let resolve = async |query: String| api.get(&format!("/v1/runs/r/resolve?{query}")).await;
    let at = |locator: &str| format!("locator={}", segment(locator));
    for (round, checkpoint) in line.iter().enumerate() {
        for (index, group) in ["encoder", "predictor"].into_iter().enumerate() {
            let (h2, minted) = (hash(round, index), format!("artifact://acme/r/round-{round:05}/{group}"));
            let artifact = &checkpoint.content_hash;
            let expected = json!({
                "content_hash": h2, "locator": minted, "group": group, "round_index": round, "artifact": artifact,
                "url": format!("/v1/params/{h2}"),
            });
            let forms = [
                minted.clone(),
                format!("artifact://round-{round:05}/{group}"),
                format!("artifact://sha256/{h2}"),
                format!("{}/v1/params/{h2}", api.base),
                format!("/v1/artifacts/{artifact}/groups/{group}.safetensors"),
            ];
            for locator in forms {
                assert_eq!(resolve(at(&locator)).await.expect(StatusCode::OK).json(), expected, "{locator}");
                let pair = format!("{}&content_hash={h2}", at(&locator));
                assert_eq!(resolve(pair).await.expect(StatusCode::OK).json(), expected, "{locator}");
            }
            // A locator that leads nowhere does no harm beside a hash.
            let pair = format!("{}&content_hash={h2}", at("artifact://elsewhere/x/round-00000/encoder"));
            assert_eq!(resolve(pair).await.expect(StatusCode::OK).json(), expected);
        }
    }
    let pair = format!("{}&content_hash={}", at("artifact://round-00000/encoder"), hash(1, 0));
    let problem = resolve(pair).await.refused(409, "checkpoint_integrity");
    assert_eq!(
        (&problem["fields"]["expected_hash"], &problem["fields"]["got_hash"]),
        (&json!(hash(1, 0)), &json!(hash(0, 0)))
    );
    for query in [
        String::new(),
        "content_hash=x".into(),
        at("mem://theta"),
        at("artifact://round-1/encoder"),
        at("artifact://round-00000/head"),
        at("artifact://u:p@acme/r/round-00000/encoder"),
        at(&format!("artifact://{}/r/round-00000/encoder", "a".repeat(2000))),
        format!("{}&more=1", at("artifact://round-00000/encoder")),
    ] {
        resolve(query).await.refused(400, "config_invalid");
    }
}

/// C8: an auditor gets a verdict on the stored bytes without fetching a tensor.
#[tokio::test]
async fn an_auditor_asks_for_a_verdict() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(740, 2);
    committed(api, "r", &line).await;
    let round = api.get("/v1/runs/r/rounds/1").await.json();
    let path = format!("/v1/artifacts/{}", round["content_hash"].as_str().unwrap());
    let header = api.get(&format!("{path}/header.json")).await.expect(StatusCode::OK);
    assert!(header.body == line[1].header);
    let verdict = api.verify(&path, json!({"expected_hash": round["content_hash"]}).to_string()).await;
    assert_eq!(verdict.expect(StatusCode::OK).json()["ok"], true);
    let other = json!({"expected_hash": line[0].content_hash}).to_string();
    let problem = api.verify(&path, other).await.refused(422, "checkpoint_integrity");
    assert_eq!(problem["invariant"], "INV-CHECKPOINT-HASH");
    let lineage = api.get(&format!("{path}/lineage")).await.json();
    let told: Vec<&Value> = lineage["ancestors"].as_array().unwrap().iter().map(|one| &one["content_hash"]).collect();
    assert_eq!(told, [&json!(line[1].content_hash), &json!(line[0].content_hash)]);
}

/// C10: what a client of a hub does to see that a reference exists: HEAD, else a range of one byte.
#[tokio::test]
async fn references_are_seen_to_exist() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(750, 1);
    committed(api, "r", &line).await;
    let path = line[0].path();
    let files =
        [("header.json".to_owned(), line[0].header.len()), (format!("files/{SINGLE}"), line[0].file(SINGLE).len())];
    for (file, size) in files {
        let told = api.head(&format!("{path}/{file}")).await.expect(StatusCode::OK);
        assert_eq!(told.header("x-linked-size"), size.to_string());
        let one = api.get_with(&format!("{path}/{file}"), "range", "bytes=0-0").await;
        assert_eq!((one.status, one.body.len()), (StatusCode::PARTIAL_CONTENT, 1));
        assert_eq!(one.header("content-range"), format!("bytes 0-0/{size}"));
    }
}

/// C7: the rounds are listed in pages, and each leads to a directory that is whole.
#[tokio::test]
async fn rounds_are_listed_and_lead_to_whole_directories() {
    let server = TestServer::start().await;
    let api = &server.api;
    let line = chain(760, 7);
    committed(api, "r", &line).await;
    let (mut path, mut seen) = ("/v1/runs/r/rounds?limit=3".to_owned(), Vec::new());
    loop {
        let answer = api.get(&path).await.expect(StatusCode::OK);
        let page = answer.json();
        seen.extend(page["rounds"].as_array().unwrap().clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/runs/r/rounds?limit=3&cursor={cursor}");
        assert_eq!(answer.header("link"), format!("<{path}>; rel=\"next\""));
    }
    assert_eq!(seen.len(), 7);
    for (round, checkpoint) in seen.iter().rev().zip(&line) {
        assert_eq!(*round, api.get(&format!("/v1/runs/r/rounds/{}", round["round_index"])).await.json());
        assert_eq!(round["content_hash"], checkpoint.content_hash.as_str());
        api.check(checkpoint).await;
    }
    assert_eq!(api.commit("r", &commit_of(&line[3], None)).await.expect(StatusCode::OK).json(), seen[3]);
}
