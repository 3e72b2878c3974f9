//! Three participants, six rounds, an abort, a retry, a second coordinator, and a server that dies between every two
//! steps of a commit.

use cairn::client::audit::audit as audit_here;
use cairn::client::progress::{Progress, Silent};
use cairn::client::server::{DEFAULT_IDLE, Server};
use cairn::core::audit::Tier;
use cairn::store::meta::commit::STEPS;
use reqwest::StatusCode;
use serde_json::json;
use std::sync::Arc;

use crate::support::client::Api;
use crate::support::federation::{Federation, RUN, audit, codes, commit, head, post, try_post};
use crate::support::process::ServerProcess;

/// Commits the next round, and lets the server die at every step of it before.
async fn advance_through_crashes(server: &mut ServerProcess, federation: &mut Federation, seed: u64, steps: &[&str]) {
    let checkpoint = federation.next(seed);
    server.api.store(&checkpoint).await;
    let before = head(&server.api).await;
    let body = federation.commit_body(&server.api, &checkpoint).await;
    let mut committed = false;
    for step in steps {
        server.kill();
        server.resume_with(&[("CAIRN_CRASH_AT", step)]);
        let path = format!("/v1/runs/{RUN}/commits");
        match try_post(&server.api, &path, body.clone()).await {
            Err(_) => {}
            // What is committed already is committed without those steps.
            Ok(answer) => assert!(committed && answer.status == StatusCode::OK, "{step}: {}", answer.text()),
        }
        server.kill();
        server.resume();
        let now = head(&server.api).await;
        // Only the transaction's own end makes the round.
        committed |= matches!(*step, "commit.done" | "commit.answer");
        let expected = if committed { json!(checkpoint.content_hash) } else { before["content_hash"].clone() };
        assert_eq!(now["content_hash"], expected, "{step}");
        let records = before["ledger_count"].as_u64().unwrap();
        let record = u64::from(committed && before["round_index"].is_u64());
        assert_eq!(now["ledger_count"], records + record, "{step}");
    }
    let answer = commit(&server.api, body).await;
    assert_eq!(answer.status, if committed { StatusCode::OK } else { StatusCode::CREATED }, "{}", answer.text());
    federation.rounds.push(checkpoint);
}

/// What a client computes from what it downloads.
async fn audit_by_client(api: &Api, tier: Tier) -> cairn::api::audit::Audit {
    let server = Server::new(&api.base, None, DEFAULT_IDLE).unwrap();
    let silent: Arc<dyn Progress> = Arc::new(Silent);
    audit_here(&server, RUN, tier, &silent).await.unwrap()
}

/// B3, B9, D6, D12.
#[tokio::test(flavor = "multi_thread")]
async fn a_federation_lives_through_crashes_aborts_and_a_rival_and_its_audit_is_clean() {
    let mut server = ServerProcess::start();
    let mut federation = Federation::found(&server.api).await;
    let last = STEPS.len() - 1;
    for round in 0..6usize {
        if round == 3 {
            let abort =
                json!({"round_index": 2, "reason_code": "aggregation_failed", "detail": "two updates were late"});
            post(&server.api, &format!("/v1/runs/{RUN}/aborts"), abort.to_string()).await.expect(StatusCode::CREATED);
            assert_eq!(head(&server.api).await["attempt"], 2);
        }
        // Every step dies in three rounds at least, the ends of the transaction in the last of them.
        let steps: Vec<&str> = STEPS[..=last].iter().copied().skip(round % 2).step_by(2).collect();
        advance_through_crashes(&mut server, &mut federation, 100 + round as u64, &steps).await;
        if round == 4 {
            // A second coordinator has another result for the round that was just committed.
            let parent = &federation.rounds[3];
            let rival = crate::support::checkpoint::CheckpointBuilder::new(9).parent(parent, 4).build();
            server.api.store(&rival).await;
            let body = json!({
                "content_hash": rival.content_hash, "round_index": 4, "parent_hash": parent.content_hash,
            });
            let problem = commit(&server.api, body.to_string()).await.refused(409, "agg_nondeterministic");
            assert_eq!(problem["fields"]["expected_hash"], federation.rounds[4].content_hash.as_str());
            assert_eq!(problem["fields"]["got_hash"], rival.content_hash.as_str());
            assert_eq!(problem["fields"]["head_content_hash"], federation.rounds[4].content_hash.as_str());
        }
    }
    for tier in ["quick", "full", "deep"] {
        let report = audit(&server.api, tier).await;
        assert_eq!(
            (&report["ok"], &report["rounds"], &report["records"]),
            (&json!(true), &json!(6), &json!(5)),
            "{report}"
        );
        let found = codes(&report);
        for code in ["ROUND_ABORTED", "ROUND_RERUN", "AGG_NONDETERMINISTIC", "NOT_CHECKED"] {
            assert!(found.contains(&code), "{tier}: {code} is not in {report}");
        }
        assert!(report["integrity"].as_str().unwrap().starts_with("VERIFIED"), "{report}");
    }
    for tier in [Tier::Quick, Tier::Full, Tier::Deep] {
        let report = audit_by_client(&server.api, tier).await;
        assert!(report.ok && report.rounds == 6 && report.records == 5, "{report:?}");
    }
    let ledger = server.api.get(&format!("/v1/runs/{RUN}/ledger")).await.expect(StatusCode::OK).text();
    assert_eq!(ledger.lines().count(), 5);
}
