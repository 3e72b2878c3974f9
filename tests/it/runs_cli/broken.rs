//! Commits over connections that break, by clients that are killed, to servers that go away.

use serde_json::json;

use super::{Coordinator, RUN, done};
use crate::wire::{Fate, Wire};

const COMMIT: &str = "POST /v1/runs/warm-1/commits";

fn at(word: &'static str) -> Fate {
    Fate { word: Some(word), ..Fate::default() }
}

/// Runs the commit of a round over a wire.
fn commit(it: &Coordinator, index: u64, wire: &Wire) -> serde_json::Value {
    let arguments = Coordinator::arguments(index);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    done(&it.home.run(&arguments, &wire.url()).output().unwrap())
}

#[test]
fn a_client_that_is_killed_between_push_and_commit_finishes_the_next_time() {
    let it = Coordinator::start();
    done(&it.commit(0));
    let wire = Wire::start(it.registry.address(), [Fate { stall: true, ..at(COMMIT) }]);
    let arguments = Coordinator::arguments(1);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut first = it.home.start(&arguments, &wire.url());
    wire.wait();
    first.kill().unwrap();
    first.wait().unwrap();
    wire.release();
    assert_eq!(done(&it.cairn(&["run", "show", RUN]))["head_round"], 0);
    let pushed = done(&it.commit(1));
    assert_eq!((&pushed["created"], &pushed["bytes_sent"]), (&json!(false), &json!(0)));
    assert_eq!((&pushed["commit"]["created"], &pushed["commit"]["round_index"]), (&json!(true), &json!(1)));
}

#[test]
fn a_commit_whose_answer_is_lost_is_asked_for_again() {
    let it = Coordinator::start();
    // The request does not arrive, then its answer does not.
    let wire = Wire::start(it.registry.address(), [at(COMMIT), at("/v1/runs/warm-1/rounds/0")]);
    let pushed = commit(&it, 0, &wire);
    assert!(wire.is_through());
    assert_eq!((&pushed["commit"]["created"], &pushed["commit"]["round_index"]), (&json!(false), &json!(0)));
    assert_eq!(done(&it.cairn(&["log", RUN]))["rounds"].as_array().unwrap().len(), 1);
}

#[test]
fn a_commit_and_a_wait_outlive_the_server() {
    let mut it = Coordinator::start();
    done(&it.commit(0));
    let wire = Wire::start(it.registry.address(), [Fate { stall: true, ..at("if-none-match") }]);
    let wait = it.home.start(&["run", "wait", RUN, "--after", "0", "--timeout", "2m"], &wire.url());
    wire.wait();
    let held = Wire::start(it.registry.address(), [Fate { stall: true, ..at(COMMIT) }]);
    let arguments = Coordinator::arguments(1);
    let push = it.home.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &held.url());
    held.wait();
    it.registry.crash_and_restart();
    wire.release();
    held.release();
    assert_eq!(done(&push.wait_with_output().unwrap())["commit"]["round_index"], 1);
    assert_eq!(done(&wait.wait_with_output().unwrap())["round_index"], 1);
}
