//! What is refused, with which exit code, and that nothing is half done.

use std::fs;

use serde_json::json;

use super::{Coordinator, RUN, done, failed, file, round};
use crate::artifact::large;

#[test]
fn a_commit_that_does_not_follow_is_refused_with_the_head() {
    let it = Coordinator::start();
    done(&it.commit(0));
    let output = it.commit(2);
    let error = failed(&output, 1);
    assert_eq!((&error["code"], &error["status"]), (&json!("round_failed"), &json!(409)));
    assert_eq!(error["fields"]["head_round"], 0);
    // The checkpoint itself is stored, and said to be.
    assert_eq!(crate::vectors::object(&output)["created"], true);

    // Another round 0 with another encoder: the run has one already.
    let other = large(3, 1, 1).write();
    let error = failed(&it.cairn(&["push", other.path().to_str().unwrap(), "--run", RUN, "--commit"]), 1);
    assert_eq!(error["code"], "round_failed");
    assert_eq!(done(&it.cairn(&["run", "show", RUN]))["head_round"], 0);
}

#[test]
fn a_record_must_be_one_and_belong_to_the_checkpoint() {
    let it = Coordinator::start();
    done(&it.commit(0));
    let record = it.home.0.path().join("record.json");
    let (first, record) = (round(1), record.to_str().unwrap());
    let commit = ["push", &first, "--run", RUN, "--commit", "--record", record];
    // A file that is not there could not be checked.
    failed(&it.cairn(&commit), 2);
    fs::write(record, b"{\"schema_version\":1}").unwrap();
    assert_eq!(failed(&it.cairn(&commit), 1)["code"], "merkle_verify_failed");
    let ledger = fs::read_to_string(file("ledger.jsonl")).unwrap();
    let lines: Vec<&str> = ledger.lines().collect();
    // The record of another round, alone and within a ledger.
    fs::write(record, lines[1]).unwrap();
    assert_eq!(failed(&it.cairn(&commit), 1)["code"], "provenance_failed");
    fs::write(record, lines[1..].join("\n")).unwrap();
    assert_eq!(failed(&it.cairn(&commit), 1)["fields"]["cause"], "no_record");
    fs::write(record, lines[0].replace("2dbaf7", "2dbaf8")).unwrap();
    assert_eq!(failed(&it.cairn(&commit), 1)["code"], "commitment_mismatch");
    assert_eq!(done(&it.cairn(&["run", "show", RUN]))["ledger_count"], 0);
    fs::write(record, lines[0]).unwrap();
    assert!(done(&it.cairn(&commit))["commit"]["record_hash"].is_string());
    // The same round with another record is another story.
    fs::write(record, lines[0].replace("2dbaf7", "2dbaf8")).unwrap();
    let error = failed(&it.cairn(&commit), 1);
    assert_eq!((&error["code"], &error["fields"]["cause"]), (&json!("provenance_failed"), &json!("other_record")));
}

#[test]
fn a_run_that_is_not_there_costs_no_upload() {
    let it = Coordinator::start();
    let first = round(0);
    let error = failed(&it.cairn(&["push", &first, "--run", "wamr-1", "--commit"]), 1);
    assert_eq!(error["code"], "registry_not_found");
    let pushed = done(&it.cairn(&["push", &first, "--run", RUN]));
    assert_eq!((&pushed["created"], &pushed["commit"]), (&json!(true), &json!(null)));
    for arguments in [
        &["run", "show", "wamr-1"][..],
        &["log", "wamr-1"],
        &["run", "wait", "wamr-1"],
        &["run", "abort", "wamr-1", "--round", "0", "--reason", "round_failed"],
        &["document", "put", "wamr-1", "eval-report", "README.md"],
    ] {
        assert_eq!(failed(&it.cairn(arguments), 1)["code"], "registry_not_found", "{arguments:?}");
    }
    for name in ["", "..", "a/b", "-x", "a?b"] {
        let output = it.cairn(&["run", "show", "--", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}

#[test]
fn rounds_that_are_not_there_cannot_be_pulled() {
    let it = Coordinator::start();
    assert_eq!(failed(&it.home.pull("warm-1@latest", &it.registry.url()), 1)["code"], "registry_not_found");
    done(&it.commit(0));
    for reference in
        ["warm-1@1", "artifact://acme/warm-1/round-00001/encoder", "artifact://other/warm-1/round-00000/encoder"]
    {
        let error = failed(&it.home.pull(reference, &it.registry.url()), 1);
        assert_eq!(error["code"], "registry_not_found", "{reference}");
    }
    assert!(!it.home.target().exists());
}

#[test]
fn pins_reasons_and_kinds_are_judged_by_the_server() {
    let it = Coordinator::start();
    done(&it.commit(0));
    let create = |wmcp| it.cairn(&["run", "create", RUN, "--consortium", "acme", "--wmcp", wmcp]);
    let error = failed(&create("wmcp-2.0.0"), 1);
    assert_eq!(
        (&error["code"], &error["fields"]["differing_fields"]),
        (&json!("registry_conflict"), &json!(["wmcp_version"]))
    );
    let abort = |round, reason| it.cairn(&["run", "abort", RUN, "--round", round, "--reason", reason]);
    assert_eq!(failed(&abort("0", "bored"), 1)["code"], "config_invalid");
    assert_eq!(failed(&abort("1", "round_failed"), 1)["code"], "round_failed");
    let path = file("run_manifest.json");
    assert_eq!(failed(&it.cairn(&["document", "put", RUN, "diary", &path]), 1)["code"], "residency_violation");
    // Nothing has happened, so whoever waits waits in vain.
    assert_eq!(failed(&it.cairn(&["run", "wait", RUN, "--timeout", "1s"]), 2)["code"], "registry_timeout");
}
