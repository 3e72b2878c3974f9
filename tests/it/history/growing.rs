//! An audit of a run that goes on meanwhile: what comes after its beginning is no contradiction.

use std::sync::Arc;

use cairn::client::audit::audit as audit_here;
use cairn::client::progress::{Progress, Silent};
use cairn::client::server::{DEFAULT_IDLE, Server};
use cairn::core::audit::Tier;
use reqwest::StatusCode;
use serde_json::json;

use crate::support::federation::{Federation, RUN, audit, post};
use crate::support::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn audits_of_a_run_that_grows_are_clean() {
    let server = TestServer::start().await;
    let api = &server.api;
    let mut federation = Federation::found(api).await;
    let grow = async {
        for round in 0..8 {
            federation.advance(api, 70 + round).await.expect(StatusCode::CREATED);
            let abort = json!({"round_index": round, "reason_code": "round_failed"});
            post(api, &format!("/v1/runs/{RUN}/aborts"), abort.to_string()).await.expect(StatusCode::CREATED);
        }
    };
    let look = async {
        let asked = Server::new(&api.base, None, DEFAULT_IDLE).unwrap();
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        loop {
            for tier in ["quick", "deep"] {
                let report = audit(api, tier).await;
                assert_eq!(report["ok"], true, "{report}");
            }
            let report = audit_here(&asked, RUN, Tier::Quick, &silent).await.unwrap();
            assert!(report.ok, "{report:?}");
        }
    };
    // The one never ends; it is dropped when the other is done.
    tokio::select! {
        () = grow => {}
        () = look => {}
    }
}
