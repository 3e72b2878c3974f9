//! Every checkpoint that Lensemble's library has made, right and wrong, through the client and through the program.

use std::path::Path;

use cairn::client::directory;
use cairn::client::error::Error;
use cairn::client::progress::Silent;
use cairn::core::intake::Verified;
use serde_json::Value;

use crate::vectors::{Vector, cairn, object, vectors};

fn right() -> Vec<Vector> {
    vectors("checkpoint", 38)
}

fn wrong() -> Vec<Vector> {
    vectors("checkpoint-negative", 194)
}

/// Complains about everything at once, so that one run shows the whole picture.
fn none_differ(differences: &[String]) {
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

fn verify(vector: &Vector) -> Result<Verified, Error> {
    directory::verify(&vector.directory(), vector.expected(), &Silent)
}

#[test]
fn right_checkpoints_have_the_hashes_that_the_library_gave_them() {
    let mut differences = Vec::new();
    for vector in right() {
        match verify(&vector) {
            Ok(verified) => compare(&vector, &verified, &mut differences),
            Err(error) => differences.push(format!("{}: refused: {error}", vector.id())),
        }
    }
    none_differ(&differences);
}

fn compare(vector: &Vector, verified: &Verified, differences: &mut Vec<String>) {
    let expected = vector.0["expect"]["content_hash"].as_str().unwrap();
    if verified.content_hash().to_string() != expected {
        differences.push(format!("{}: content hash {}", vector.id(), verified.content_hash()));
    }
    let groups: Value =
        verified.groups().iter().map(|group| (group.name.to_owned(), Value::from(group.digest.to_string()))).collect();
    if groups != vector.0["group_hashes"] {
        differences.push(format!("{}: group hashes {groups}", vector.id()));
    }
    let mut listed = vector.files();
    listed.retain(|(name, _)| *name != "header.json");
    listed.sort_unstable();
    let files: Vec<_> = verified.files().iter().map(|file| (file.name.clone(), file.digest.to_string())).collect();
    if listed.iter().map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned())).ne(files.iter().cloned()) {
        differences.push(format!("{}: files {files:?}", vector.id()));
    }
}

#[test]
fn wrong_checkpoints_are_refused_for_the_right_reason() {
    let mut differences = Vec::new();
    for vector in wrong() {
        match verify(&vector) {
            Ok(_) if vector.is_accepted() => {}
            Ok(_) => differences.push(format!("{}: accepted", vector.id())),
            Err(error) if vector.is_accepted() => differences.push(format!("{}: refused: {error}", vector.id())),
            Err(error) if !error.is_verdict() => differences.push(format!("{}: no verdict: {error}", vector.id())),
            Err(error) if !vector.codes().contains(&&*error.problem().code) => {
                differences.push(format!("{}: {error}; expected {:?}", vector.id(), vector.codes()));
            }
            Err(_) => {}
        }
    }
    none_differ(&differences);
}

#[test]
fn the_program_hashes_and_verifies_right_checkpoints() {
    let mut differences = Vec::new();
    for vector in right() {
        let hashed = cairn([Path::new("hash"), &vector.directory(), Path::new("--json")]);
        let hashed = (hashed.status.code(), object(&hashed));
        let files: Value = vector
            .files()
            .into_iter()
            .filter(|(name, _)| *name != "header.json")
            .map(|(name, hash)| (name.to_owned(), Value::from(hash)))
            .collect();
        let expected = serde_json::json!({
            "content_hash": vector.0["expect"]["content_hash"],
            "groups": vector.0["group_hashes"],
            "files": files,
        });
        if hashed != (Some(0), expected) {
            differences.push(format!("{}: hash: {hashed:?}", vector.id()));
        }
        let verified = cairn([Path::new("verify"), &vector.directory(), Path::new("--json")]);
        let (code, verified) = (verified.status.code(), object(&verified));
        if code != Some(0)
            || verified["ok"] != true
            || verified["content_hash"] != vector.0["expect"]["content_hash"]
            || verified["round_index"] != vector.0["expect"]["round_index"]
            || verified["parent_hash"] != vector.0["expect"]["parent_hash"]
        {
            differences.push(format!("{}: verify: {code:?} {verified}", vector.id()));
        }
    }
    none_differ(&differences);
}

#[test]
fn the_program_refuses_wrong_checkpoints() {
    let mut differences = Vec::new();
    for vector in wrong() {
        let directory = vector.directory();
        let mut arguments = vec!["verify", directory.to_str().unwrap(), "--json"];
        arguments.extend(vector.expected().into_iter().flat_map(|hash| ["--expect", hash]));
        let verified = cairn(&arguments);
        let (code, verified) = (verified.status.code(), object(&verified));
        let as_expected = if vector.is_accepted() {
            code == Some(0) && verified["ok"] == true
        } else {
            code == Some(1)
                && verified["ok"] == false
                && vector.codes().contains(&verified["error"]["code"].as_str().unwrap())
                && !verified["error"]["remediation"].as_str().unwrap().is_empty()
        };
        if !as_expected {
            differences.push(format!("{}: verify: {code:?} {verified}", vector.id()));
        }
        // `hash` expects nothing, so it fails only where the directory itself is wrong.
        let hashed = cairn(["hash", directory.to_str().unwrap(), "--json"]);
        let (code, hashed) = (hashed.status.code(), object(&hashed));
        let as_expected = if vector.is_accepted() || vector.expected().is_some() {
            code == Some(0) && hashed["content_hash"].is_string()
        } else {
            code == Some(1) && vector.codes().contains(&hashed["error"]["code"].as_str().unwrap())
        };
        if !as_expected {
            differences.push(format!("{}: hash: {code:?} {hashed}", vector.id()));
        }
    }
    none_differ(&differences);
}
