//! How results and failures are shown: one JSON object for programs, or text for people.

use std::io::Write;
use std::process::ExitCode;

use crate::api::problem::Problem;
use crate::client::error::Error;
use crate::core::intake::Verified;
use serde_json::{Map, Value, json};

/// What a command has found or done.
pub(super) struct Report {
    /// For programs.
    pub json: Value,
    /// For people, on standard output.
    pub text: String,
    /// Beside it, on standard error.
    pub notes: Vec<String>,
    /// How the program ends: 0, or what the thing that was looked at deserves.
    pub exit: u8,
}

/// Why a command has not done what it should.
pub(super) struct Failure {
    error: Box<Error>,
    /// What the JSON object holds beside the error.
    beside: Map<String, Value>,
    /// Whether it says nothing about the thing that was to be checked, whatever the server thinks.
    unchecked: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error: Box::new(error), beside: Map::new(), unchecked: false }
    }
}

impl Failure {
    /// A failure of a command that has done something before.
    pub(super) fn beside(error: Error, done: Value) -> Self {
        let beside = if let Value::Object(done) = done { done } else { Map::new() };
        Self { error: Box::new(error), beside, unchecked: false }
    }

    /// A failure whose JSON says `"ok": false`.
    pub(super) fn not_ok(error: Error) -> Self {
        let beside = Map::from_iter([("ok".to_owned(), Value::Bool(false))]);
        Self { error: Box::new(error), beside, unchecked: false }
    }

    /// A failure of a check that did not take place.
    pub(super) fn unchecked(error: Error) -> Self {
        Self { error: Box::new(error), beside: Map::new(), unchecked: true }
    }
}

/// Shows a result.
pub(super) fn succeed(report: &Report, json: bool) -> ExitCode {
    for note in &report.notes {
        say(&format!("note: {note}"));
    }
    if json {
        say(&report.text);
        print(&report.json.to_string());
    } else {
        print(&report.text);
    }
    ExitCode::from(report.exit)
}

/// Shows a failure: 1 for a verdict about the thing that was checked, 2 when it could not be checked.
pub(super) fn fail(failure: &Failure, json: bool) -> ExitCode {
    let problem = failure.error.problem();
    say(&explain(problem));
    if json {
        let mut object = failure.beside.clone();
        object.insert("error".to_owned(), serde_json::to_value(problem).unwrap_or_default());
        print(&Value::Object(object).to_string());
    }
    ExitCode::from(if failure.error.is_verdict() && !failure.unchecked { 1 } else { 2 })
}

/// Says that the person stopped it.
pub(super) fn interrupted() -> ExitCode {
    say("interrupted; the same command continues where it stopped");
    ExitCode::from(130)
}

/// How a server has ended; what it was about to say stands in its log.
pub(super) fn served(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// A problem in a few aligned lines.
fn explain(problem: &Problem) -> String {
    let mut lines = vec![format!("error: {}", problem.message)];
    let widest = problem.fields.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, value) in &problem.fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        lines.push(format!("  {name:widest$}  {value}"));
    }
    lines.push(format!("help:  {}", problem.remediation));
    let invariant = problem.invariant.as_ref().map_or_else(String::new, |invariant| format!(" ({invariant})"));
    lines.push(format!("code:  {}{invariant}", problem.code));
    if let Some(id) = &problem.request_id {
        lines.push(format!("request: {id}"));
    }
    lines.join("\n")
}

/// The groups of a verified artifact as the JSON shapes have them.
pub(super) fn groups(verified: &Verified) -> Value {
    verified.groups().iter().map(|group| (group.name.to_owned(), json!(group.digest))).collect::<Map<_, _>>().into()
}

/// Its files likewise.
pub(super) fn files(verified: &Verified) -> Value {
    verified.files().iter().map(|file| (file.name.clone(), json!(file.digest))).collect::<Map<_, _>>().into()
}

/// The beginning of a hash: enough to tell it from the others of a run.
pub(super) fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

/// Text that others wrote, for a terminal: nothing in it can move the cursor or colour what follows.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// What the API describes, as a JSON object with one more entry that says whether it is new.
pub(super) fn with_created(value: impl serde::Serialize, created: bool) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    value["created"] = Value::Bool(created);
    value
}

/// Text for people about more than one thing.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A reader that has gone away is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
