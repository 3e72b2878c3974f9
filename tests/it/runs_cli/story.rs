//! A run from its registration on, as coordinator, participant and auditor see it.

use std::fs;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Coordinator, RUN, done, file, round};
use crate::artifact::hex;
use crate::home::Home;
use crate::vectors::command;
use crate::wire::{Fate, Wire};

#[test]
fn rounds_are_committed_shown_and_fetched_by_their_names() {
    let it = Coordinator::start();
    assert_eq!(done(&it.cairn(&["run", "show", RUN]))["head_round"], json!(null));
    let mut hashes = Vec::new();
    for index in 0..3 {
        let pushed = done(&it.commit(index));
        assert_eq!((&pushed["created"], &pushed["commit"]["created"]), (&json!(true), &json!(true)));
        assert_eq!((&pushed["commit"]["run"], &pushed["commit"]["round_index"]), (&json!(RUN), &json!(index)));
        assert_eq!(pushed["commit"]["content_hash"], pushed["content_hash"]);
        assert_eq!(pushed["commit"]["parent_hash"], hashes.last().map_or(json!(null), |hash| json!(hash)));
        hashes.push(pushed["content_hash"].as_str().unwrap().to_owned());
    }

    // The same command again is a success that changes nothing.
    let again = done(&it.commit(2));
    assert_eq!((&again["bytes_sent"], &again["commit"]["created"]), (&json!(0), &json!(false)));
    assert_eq!(again["commit"]["round_index"], 2);

    let shown = done(&it.cairn(&["run", "show", RUN]));
    assert_eq!((&shown["head_round"], &shown["head_hash"]), (&json!(2), &json!(hashes[2])));
    assert_eq!((&shown["ledger_count"], &shown["consortium"]), (&json!(2), &json!("acme")));
    assert_eq!(done(&it.cairn(&["run", "list"]))["runs"], json!([shown]));

    let log = done(&it.cairn(&["log", RUN]));
    assert_eq!((&log["run"], &log["aborts"]), (&json!(RUN), &json!([])));
    let rounds = log["rounds"].as_array().unwrap();
    assert_eq!(rounds.iter().map(|round| &round["round_index"]).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!((&rounds[0]["participant_count"], &rounds[2]["participant_count"]), (&json!(3), &json!(null)));
    let log = done(&it.cairn(&["log", RUN, "--limit", "1"]));
    assert_eq!(log["rounds"].as_array().unwrap().len(), 1);

    participant(&it, &hashes);
}

/// Fetches by every name there is.
fn participant(it: &Coordinator, hashes: &[String]) {
    // A group alone, by the name of the newest round.
    let home = Home::new();
    let target = home.target();
    let target = target.to_str().unwrap();
    let url = it.registry.url();
    let pull = |home: &Home, arguments: &[&str]| home.run(arguments, &url).output().unwrap();
    let pulled = done(&pull(&home, &["pull", "warm-1@latest", target, "--group", "encoder"]));
    assert_eq!(fs::read_dir(home.target()).unwrap().count(), 1);
    let encoder = fs::read(home.target().join("encoder.safetensors")).unwrap();
    assert_eq!(pulled["group_hash"], hex(&Sha256::digest(&encoder)));
    assert_eq!((&pulled["content_hash"], &pulled["verified"]), (&json!(hashes[2]), &json!(true)));
    assert_eq!((&pulled["run"], &pulled["round_index"]), (&json!(RUN), &json!(2)));
    assert_eq!(pulled["bytes_received"], encoder.len());

    // A whole round by its number.
    let home = Home::new();
    let target = home.target();
    let pulled = done(&pull(&home, &["pull", "warm-1@1", target.to_str().unwrap()]));
    assert_eq!((&pulled["content_hash"], &pulled["round_index"]), (&json!(hashes[1]), &json!(1)));
    for name in ["header.json", "weights.safetensors"] {
        assert!(fs::read(target.join(name)).unwrap() == fs::read(format!("{}/{name}", round(1))).unwrap());
    }
    let again = done(&pull(&home, &["pull", "warm-1@1", target.to_str().unwrap()]));
    assert_eq!(again["bytes_received"], 0);

    // Locators in every form lead to one group.
    let group = done(&pull(
        &home,
        &["pull", "warm-1@1", &home.0.path().join("g").display().to_string(), "--group", "predictor"],
    ));
    let group = group["group_hash"].as_str().unwrap();
    for (number, (locator, more)) in [
        ("artifact://acme/warm-1/round-00001/predictor".to_owned(), &[][..]),
        ("artifact://round-00001/predictor".to_owned(), &["--run", RUN]),
        (format!("artifact://sha256/{group}"), &["--group", "predictor"]),
        (format!("{url}/v1/params/{group}"), &[]),
        (format!("{url}/v1/artifacts/{}/groups/predictor.safetensors", hashes[1]), &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let target = home.0.path().join(number.to_string());
        let arguments = [&["pull", &locator, target.to_str().unwrap()], more].concat();
        let pulled = done(&pull(&home, &arguments));
        assert_eq!(pulled["group_hash"], group, "{locator}");
        assert_eq!(hex(&Sha256::digest(fs::read(target.join("predictor.safetensors")).unwrap())), group, "{locator}");
    }
    let target = home.0.path().join("by address");
    let address = format!("{url}/v1/artifacts/{}", hashes[0]);
    assert_eq!(done(&pull(&home, &["pull", &address, target.to_str().unwrap()]))["content_hash"], hashes[0]);
}

#[test]
fn a_person_sees_the_line_of_rounds_and_what_was_given_up() {
    let it = Coordinator::start();
    done(&it.commit(0));
    let reason = ["--reason", "aggregation_failed", "--detail", "one silo was away"];
    let abort = done(&it.cairn(&[&["run", "abort", RUN, "--round", "0"], &reason[..]].concat()));
    assert_eq!((&abort["round_index"], &abort["attempt"]), (&json!(0), &json!(1)));
    done(&it.commit(1));
    let output = command(["log", RUN, "--server", &it.registry.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let marks: String = text.lines().map(|line| line.chars().next().unwrap()).collect();
    assert_eq!(marks, "●│○││●", "{text}");
    for part in ["aggregation_failed: one silo was away", "3 participants, attempt 2", "attempt 1 given up"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // Nobody watches, so there are no colours.
    assert!(!text.contains('\x1b'));
    assert_eq!(done(&it.cairn(&["log", RUN]))["aborts"].as_array().unwrap().len(), 1);

    let output = command(["run", "show", RUN, "--server", &it.registry.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["acme", "wmcp-1.0.0", "round 1, attempt 1", "artifact://acme/warm-1/round-00001/encoder", "1 record"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn whoever_waits_is_told_of_the_next_round() {
    let it = Coordinator::start();
    // It has looked once when its second question breaks off.
    let wire = Wire::start(it.registry.address(), [Fate { word: Some("if-none-match"), ..Fate::default() }]);
    let wait = it.home.start(&["run", "wait", RUN, "--timeout", "2m"], &wire.url());
    wire.wait();
    done(&it.commit(0));
    let head = done(&wait.wait_with_output().unwrap());
    assert_eq!(head["round_index"], 0);
    assert!(head["theta_ref"]["content_hash"].is_string());
    // What has happened already is not waited for.
    let wait = it.home.start(&["run", "wait", RUN, "--after", "0", "--timeout", "2m"], &it.registry.url());
    done(&it.commit(1));
    assert_eq!(done(&wait.wait_with_output().unwrap())["round_index"], 1);
    assert_eq!(done(&it.cairn(&["run", "wait", RUN, "--after", "0"]))["round_index"], 1);
}

#[test]
fn a_run_is_registered_from_a_file_or_from_options_and_its_pins_hold() {
    let it = Coordinator::start();
    let hash = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";
    let warm = format!("vjepa2:vitl:{hash}");
    let options = [
        "run",
        "create",
        "pinned",
        "--consortium",
        "acme",
        "--wmcp",
        "wmcp-1.0.0",
        "--config-hash",
        hash,
        "--probe-hash",
        hash,
        "--warm-start",
        &warm,
        "--participant",
        "b",
        "--participant",
        "a",
        "--min-participants",
        "2",
        "--visibility",
        "public",
    ];
    let run = done(&it.cairn(&options));
    assert_eq!((&run["created"], &run["participants"]), (&json!(true), &json!(["a", "b"])));
    assert_eq!((&run["warm_start"]["release"], &run["min_participants"]), (&json!("vjepa2:vitl"), &json!(2)));
    assert_eq!(done(&it.cairn(&options))["created"], false);

    let file = it.home.0.path().join("run.json");
    let body = json!({"run": "filed", "consortium": "acme", "wmcp_version": "wmcp-1.0.0", "probe_version": 2});
    fs::write(&file, body.to_string()).unwrap();
    assert_eq!(done(&it.cairn(&["run", "create", "--file", file.to_str().unwrap()]))["probe_version"], 2);
    let names: Vec<_> = done(&it.cairn(&["run", "list"]))["runs"].as_array().unwrap().clone();
    assert_eq!(names.iter().map(|run| &run["run"]).collect::<Vec<_>>(), ["filed", "pinned", RUN]);
}

#[test]
fn documents_are_kept_once() {
    let it = Coordinator::start();
    let path = file("run_manifest.json");
    let arguments = ["document", "put", RUN, "run-manifest", &path];
    let kept = done(&it.cairn(&arguments));
    assert_eq!((&kept["created"], &kept["kind"]), (&json!(true), &json!("run-manifest")));
    assert_eq!(kept["digest"], hex(&Sha256::digest(fs::read(&path).unwrap())));
    assert_eq!(done(&it.cairn(&arguments))["created"], false);

    let commitment = file("commitments/c0.json");
    let arguments = ["document", "commit-dataset", RUN, "α/β", &commitment, "--from-round", "3"];
    let held = done(&it.cairn(&arguments));
    assert_eq!((&held["participant"], &held["from_round"]), (&json!("α/β"), &json!(3)));
}
