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

use crate::support::data::{self, flip};
use crate::support::federation::{Federation, RUN, audit, codes, post};
use crate::support::server::TestServer;

/// What is done to the data directory of a stopped server.
enum Harm {
    /// A statement without foreign keys.
    Sql(&'static str),
    /// The file of round 3 is gone.
    Remove,
    /// It ends one byte early.
    Cut,
    /// One bit of it is another.
    Flip,
}

struct Case {
    name: &'static str,
    harm: Harm,
    tier: &'static str,
    code: &'static str,
    /// Whether a client sees it too: some of it lies where only the server looks.
    client: bool,
}

const fn sql(name: &'static str, statement: &'static str, code: &'static str, client: bool) -> Case {
    Case { name, harm: Harm::Sql(statement), tier: "quick", code, client }
}

const CASES: &[Case] = &[
    sql(
        "round: hash",
        "update rounds set content_hash = replace(content_hash, substr(content_hash, 9, 1), 'x') where round_index = 3",
        "ENTRY_MALFORMED",
        false,
    ),
    sql(
        "round: other hash",
        "update rounds set content_hash = reverse_hex(content_hash) where round_index = 3",
        "BLOB_MISSING",
        true,
    ),
    sql(
        "round: parent",
        "update rounds set parent_hash = reverse_hex(parent_hash) where round_index = 3",
        "PARENT_CONTENT_MISMATCH",
        true,
    ),
    sql("round: no parent", "update rounds set parent_hash = null where round_index = 3", "PARENT_ORPHAN", true),
    sql("round gone", "delete from rounds where round_index = 3", "ROUND_REORDERED", true),
    sql("round 0 gone", "delete from rounds where round_index = 0", "LINEAGE_NO_GENESIS", true),
    sql(
        "head",
        "update runs set head_round = 4, head_hash = (select content_hash from rounds where round_index = 4)",
        "HEAD_MISMATCH",
        true,
    ),
    sql("pin", "update runs set wmcp_version = 'wmcp-1.0.1'", "STATE_DIVERGES", true),
    sql(
        "header byte",
        "update artifacts set header = cast(replace(cast(header as text), 'wmcp-1.0.0', 'wmcp-1.0.1') as blob) where round_index = 3",
        "BLOB_HASH_MISMATCH",
        true,
    ),
    sql("artifact: round", "update artifacts set round_index = 7 where round_index = 3", "STATE_DIVERGES", false),
    sql(
        "artifact: parent",
        "update artifacts set parent_hash = reverse_hex(parent_hash) where round_index = 3",
        "STATE_DIVERGES",
        true,
    ),
    sql("artifact gone", "delete from artifacts where round_index = 3", "BLOB_MISSING", true),
    sql(
        "group",
        "update artifact_groups set group_hash = reverse_hex(group_hash) where name = 'encoder'",
        "STATE_DIVERGES",
        true,
    ),
    sql(
        "files gone",
        "delete from artifact_files where content_hash = (select content_hash from rounds where round_index = 3)",
        "BLOB_MISSING",
        true,
    ),
    sql(
        "digest of the header",
        "update rounds set header_digest = reverse_hex(header_digest) where round_index = 3",
        "BLOB_HASH_MISMATCH",
        false,
    ),
    sql("attempt", "update rounds set attempt = 4 where round_index = 3", "STATE_DIVERGES", true),
    sql("abort gone", "delete from aborts", "STATE_DIVERGES", true),
    sql(
        "ledger line",
        "update ledger_records set line = replace(line, '\"round_index\":2', '\"round_index\":1') where round_index = 2",
        "LEDGER_CHAIN_BROKEN",
        true,
    ),
    sql(
        "ledger root",
        "update ledger_records set line = replace(line, 'acme', 'acne') where round_index = 2",
        "LEDGER_CHAIN_BROKEN",
        true,
    ),
    sql(
        "ledger hash",
        "update ledger_records set record_hash = reverse_hex(record_hash) where round_index = 2",
        "LEDGER_CHAIN_BROKEN",
        false,
    ),
    sql("ledger record gone", "delete from ledger_records where round_index = 2", "LEDGER_CHAIN_BROKEN", true),
    sql("ledger tail gone", "delete from ledger_records where round_index = 4", "LEDGER_CHAIN_BROKEN", true),
    sql(
        "ledger: not JSON",
        "update ledger_records set line = substr(line, 2) where round_index = 2",
        "ENTRY_MALFORMED",
        true,
    ),
    sql(
        "ledger: checkpoint",
        "update ledger_records set global_model_hash = reverse_hex(global_model_hash) where round_index = 2",
        "ROUND_CONTRIBUTIONS_MISMATCH",
        false,
    ),
    sql(
        "commitment",
        "update commitments set merkle_root = reverse_hex(merkle_root) where participant = 'acme'",
        "ROUND_CONTRIBUTIONS_MISMATCH",
        true,
    ),
    sql(
        "document",
        "update documents set body = cast(replace(cast(body as text), 'arm-0', 'arm-1') as blob)",
        "BLOB_HASH_MISMATCH",
        true,
    ),
    sql(
        "event gone",
        "delete from events where kind = 'round.close' and event_seq = (select max(event_seq) - 2 from events)",
        "STATE_DIVERGES",
        false,
    ),
    sql(
        "event",
        "update events set data = replace(data, '\"round_index\":3', '\"round_index\":2') where kind = 'checkpoint.committed'",
        "STATE_DIVERGES",
        false,
    ),
    Case { name: "file gone", harm: Harm::Remove, tier: "quick", code: "BLOB_MISSING", client: true },
    Case { name: "file cut", harm: Harm::Cut, tier: "full", code: "BLOB_SIZE_MISMATCH", client: true },
    Case { name: "file bit", harm: Harm::Flip, tier: "deep", code: "BLOB_HASH_MISMATCH", client: true },
];

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
