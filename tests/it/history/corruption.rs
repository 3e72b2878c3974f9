//! One thing is changed behind the server's back, and the audit says what, by its code.
//!
//! On SQLite only: whole data directories are copied, and foreign keys are switched off.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cairn::client::audit::audit as audit_here;
use cairn::client::progress::{Progress, Silent};
use cairn::client::server::{DEFAULT_IDLE, Server};
use cairn::core::audit::Tier;
use reqwest::StatusCode;
use serde_json::json;

use super::cases::{CASES, Harm};
use crate::support::data::{self, flip};
use crate::support::federation::{Federation, RUN, audit, codes, post};
use crate::support::server::TestServer;

/// A history worth damaging: six rounds, one of them at the second attempt.
async fn prepared() -> TestServer {
    let mut server = TestServer::start_on_sqlite().await;
    let mut federation = Federation::found(&server.api).await;
    for round in 0..6 {
        if round == 3 {
            let abort = json!({"round_index": 2, "reason_code": "round_failed"});
            post(&server.api, &format!("/v1/runs/{RUN}/aborts"), abort.to_string()).await.expect(StatusCode::CREATED);
        }
        federation.advance(&server.api, 40 + round).await.expect(StatusCode::CREATED);
    }
    assert_eq!(audit(&server.api, "deep").await["ok"], true);
    server.stop().await;
    server
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The file that holds the weights of round 3.
async fn weights(dir: &Path) -> std::path::PathBuf {
    let query = "select b.blob_key from rounds r join artifact_files f on f.content_hash = r.content_hash \
        join blobs b on b.digest = f.digest where r.round_index = 3";
    let key = data::texts(dir, query).await.remove(0);
    data::blobs(dir).into_iter().find(|path| path.ends_with(&key)).unwrap()
}

async fn harm(dir: &Path, harm: &Harm) {
    match harm {
        Harm::Sql(statement) => assert!(data::harm(dir, statement).await > 0, "{statement}"),
        Harm::Remove => fs::remove_file(weights(dir).await).unwrap(),
        Harm::Cut => {
            let path = weights(dir).await;
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        }
        Harm::Flip => {
            let path = weights(dir).await;
            let len = fs::metadata(&path).unwrap().len();
            flip(&path, len - 3);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_planted_corruption_is_found_by_its_code() {
    let whole = prepared().await;
    let mut missed = Vec::new();
    for case in CASES {
        let mut server = TestServer::start_on_sqlite().await;
        server.stop().await;
        copy(whole.dir(), server.dir());
        harm(server.dir(), &case.harm).await;
        server.resume().await;
        let report = audit(&server.api, case.tier).await;
        let told = report["integrity"].as_str().unwrap().starts_with("FAILED");
        if report["ok"] != false || !told || !codes(&report).contains(&case.code) {
            missed.push(format!("{}: {} is not in {report}", case.name, case.code));
        }
        let asked = Server::new(&server.api.base, None, DEFAULT_IDLE).unwrap();
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        let tier = Tier::parse(case.tier).unwrap();
        let here = audit_here(&asked, RUN, tier, &silent).await;
        if case.client != here.as_ref().is_ok_and(|report| !report.ok) {
            missed.push(format!("{}: the client says {here:?}", case.name));
        }
        server.stop().await;
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
