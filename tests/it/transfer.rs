//! Push and pull between the real program and the real server, over a network that fails.

use std::fs;
use std::path::Path;
use std::process::{Child, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::artifact::{Artifact, hex, large};
use crate::home::Home;
use crate::registry::Registry;
use crate::vectors::object;
use crate::wire::{Fate, Wire};

fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    object(output)
}

fn failed(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    object(output)["error"].clone()
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Compares a directory with an artifact, byte by byte.
fn is_whole(directory: &Path, artifact: &Artifact) {
    let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut expected = vec!["header.json"];
    expected.extend(artifact.files.iter().map(|(name, _)| name.as_str()));
    assert_eq!(names, expected);
    assert_eq!(fs::read_to_string(directory.join("header.json")).unwrap(), artifact.header);
    for (name, bytes) in &artifact.files {
        assert!(fs::read(directory.join(name)).unwrap() == *bytes, "{name} differs");
    }
}

#[test]
fn what_is_pushed_can_be_pulled_and_neither_is_done_twice() {
    let (registry, home) = (Registry::start(), Home::new());
    for (seed, shards) in [(1, 1), (2, 3)] {
        let artifact = large(seed, 3, shards);
        let directory = artifact.write();
        let pushed = done(&home.push(directory.path(), &registry.url()));
        assert_eq!(pushed["content_hash"], *artifact.content_hash);
        assert_eq!(pushed["created"], true);
        assert_eq!(pushed["bytes_sent"], artifact.size());
        assert_eq!(pushed["groups"], serde_json::json!(artifact.groups));
        let again = done(&home.push(directory.path(), &registry.url()));
        assert_eq!((&again["created"], &again["bytes_sent"]), (&false.into(), &0.into()));
        assert_eq!(home.remembered(), 0);

        let home = Home::new();
        let pulled = done(&home.pull(&artifact.content_hash, &registry.url()));
        assert_eq!(pulled["content_hash"], *artifact.content_hash);
        assert_eq!(pulled["bytes_received"], artifact.size());
        assert_eq!(pulled["verified"], true);
        is_whole(&home.target(), &artifact);
        assert!(home.beside().is_empty());
        let again = done(&home.pull(&artifact.content_hash, &registry.url()));
        assert_eq!(again["bytes_received"], 0);
    }
}

#[test]
fn a_push_goes_on_after_broken_connections() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(3, 6, 1));
    let cut = |up| Fate { up: Some(up), ..Fate::default() };
    let wire = Wire::start(registry.address(), [cut(4 << 20), cut(1 << 20)]);
    let pushed = done(&home.push(artifact.write().path(), &wire.url()));
    assert_eq!((&pushed["created"], &pushed["bytes_sent"]), (&true.into(), &artifact.size().into()));
    assert!(wire.is_through());
    // What had arrived was not sent again, but for what was on its way when the server told of its earlier bytes.
    assert!(wire.up() < artifact.size() + (7 << 19), "{} bytes went out", wire.up());
    assert_eq!(done(&home.pull(&artifact.content_hash, &registry.url()))["bytes_received"], artifact.size());
}

#[test]
fn a_killed_push_continues_where_it_stopped() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(4, 6, 2));
    let sixty_percent = artifact.size() * 6 / 10;
    let fate = Fate { up: Some(sixty_percent), stall: true, ..Fate::default() };
    let wire = Wire::start(registry.address(), [fate]);
    let directory = artifact.write();
    let mut first = home.start(&["push", directory.path().to_str().unwrap()], &wire.url());
    wire.wait();
    kill(&mut first);
    wire.release();
    assert!(home.remembered() > 0);
    let pushed = done(&home.push(directory.path(), &wire.url()));
    assert_eq!(pushed["created"], true);
    let sent = pushed["bytes_sent"].as_u64().unwrap();
    assert!(sent < artifact.size() / 2, "{sent} of {} bytes were sent again", artifact.size());
    assert_eq!(home.remembered(), 0);
    done(&home.pull(&artifact.content_hash, &registry.url()));
    is_whole(&home.target(), &artifact);
}

#[test]
fn a_push_outlives_the_server() {
    let (mut registry, home, artifact) = (Registry::start(), Home::new(), large(5, 6, 1));
    let fate = Fate { up: Some(artifact.size() / 2), stall: true, ..Fate::default() };
    let wire = Wire::start(registry.address(), [fate]);
    let directory = artifact.write();
    let push = home.start(&["push", directory.path().to_str().unwrap()], &wire.url());
    wire.wait();
    registry.crash_and_restart();
    wire.release();
    let pushed = done(&push.wait_with_output().unwrap());
    assert_eq!(pushed["created"], true);
    done(&home.pull(&artifact.content_hash, &registry.url()));
}

#[test]
fn two_pushes_of_the_same_both_succeed() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(6, 4, 2));
    let directory = artifact.write();
    let pushes = [(); 2].map(|()| home.start(&["push", directory.path().to_str().unwrap()], &registry.url()));
    for push in pushes {
        assert_eq!(done(&push.wait_with_output().unwrap())["content_hash"], *artifact.content_hash);
    }
    assert_eq!(home.remembered(), 0);
}

#[test]
fn a_pull_goes_on_after_broken_connections() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(7, 6, 2));
    done(&home.push(artifact.write().path(), &registry.url()));
    let cut = |down| Fate { down: Some(down), ..Fate::default() };
    let stall = Fate { stall: true, ..cut(900_000) };
    let wire = Wire::start(registry.address(), [cut(1 << 20), stall, cut(2 << 20)]);
    let pulled = done(&home.pull(&artifact.content_hash, &wire.url()));
    wire.release();
    assert!(wire.is_through());
    assert_eq!(pulled["bytes_received"], artifact.size());
    assert!(wire.down() < artifact.size() + (1 << 20), "{} bytes came", wire.down());
    is_whole(&home.target(), &artifact);
}

#[test]
fn a_killed_pull_continues_where_it_stopped() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(8, 8, 2));
    done(&home.push(artifact.write().path(), &registry.url()));
    let fate = Fate { down: Some(artifact.size() * 7 / 10), stall: true, ..Fate::default() };
    let wire = Wire::start(registry.address(), [fate]);
    let mut first = home.start(&["pull", &artifact.content_hash, home.target().to_str().unwrap()], &wire.url());
    wire.wait();
    home.wait_for(artifact.size() / 2);
    kill(&mut first);
    wire.release();
    assert!(!home.target().exists());
    assert_eq!(home.beside().len(), 1);
    let pulled = done(&home.pull(&artifact.content_hash, &wire.url()));
    let received = pulled["bytes_received"].as_u64().unwrap();
    assert!(received < artifact.size() / 2, "{received} of {} bytes came again", artifact.size());
    is_whole(&home.target(), &artifact);
    assert!(home.beside().is_empty());
}

#[test]
fn a_range_that_is_answered_by_everything_is_not_appended() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(9, 4, 1));
    done(&home.push(artifact.write().path(), &registry.url()));
    let cut = Fate { down: Some(artifact.size() / 2), ..Fate::default() };
    let deaf = Fate { no_ranges: true, ..Fate::default() };
    let wire = Wire::start(registry.address(), [cut, deaf]);
    let pulled = done(&home.pull(&artifact.content_hash, &wire.url()));
    assert!(wire.is_through());
    assert!(pulled["bytes_received"].as_u64().unwrap() > artifact.size() * 5 / 4);
    is_whole(&home.target(), &artifact);
}

#[test]
fn left_over_bytes_that_were_damaged_cost_a_second_download_only() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(10, 4, 1));
    done(&home.push(artifact.write().path(), &registry.url()));
    let fate = Fate { down: Some(artifact.size() * 7 / 10), stall: true, ..Fate::default() };
    let wire = Wire::start(registry.address(), [fate]);
    let mut first = home.start(&["pull", &artifact.content_hash, home.target().to_str().unwrap()], &wire.url());
    wire.wait();
    home.wait_for(artifact.size() / 4);
    kill(&mut first);
    wire.release();
    let part = home.beside()[0].join("weights.safetensors");
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    done(&home.pull(&artifact.content_hash, &registry.url()));
    is_whole(&home.target(), &artifact);
}

#[test]
fn bytes_that_were_damaged_on_the_way_never_become_a_directory() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(11, 4, 1));
    done(&home.push(artifact.write().path(), &registry.url()));
    let wire = Wire::start(registry.address(), [Fate { flip: Some(artifact.size() / 2), ..Fate::default() }]);
    let error = failed(&home.pull(&artifact.content_hash, &wire.url()), 1);
    assert_eq!(error["code"], "checkpoint_integrity");
    assert_eq!(error["fields"]["expected_hash"], *artifact.content_hash);
    assert!(error["fields"]["got_hash"].is_string());
    assert!(!home.target().exists() && home.beside().is_empty());
    done(&home.pull(&artifact.content_hash, &wire.url()));
    is_whole(&home.target(), &artifact);
}

#[test]
fn two_pulls_to_one_place_do_not_disturb_each_other() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(12, 6, 2));
    done(&home.push(artifact.write().path(), &registry.url()));
    let target = home.target();
    let arguments = ["pull", &artifact.content_hash, target.to_str().unwrap()];
    let pulls = [(); 3].map(|()| home.start(&arguments, &registry.url()));
    for pull in pulls {
        assert_eq!(done(&pull.wait_with_output().unwrap())["verified"], true);
    }
    is_whole(&home.target(), &artifact);
    assert!(home.beside().is_empty());
}

#[test]
fn a_parameter_group_comes_alone_and_by_either_name() {
    let (registry, artifact) = (Registry::start(), large(13, 4, 2));
    done(&Home::new().push(artifact.write().path(), &registry.url()));
    for (group, hash) in &artifact.groups {
        for (reference, more) in [(&artifact.content_hash, &["--group", group][..]), (hash, &[])] {
            let home = Home::new();
            let target = home.target();
            let mut arguments = vec!["pull", reference.as_str(), target.to_str().unwrap()];
            arguments.extend(more);
            let pulled = done(&home.run(&arguments, &registry.url()).output().unwrap());
            let file = target.join(format!("{group}.safetensors"));
            assert_eq!(hex(&Sha256::digest(fs::read(&file).unwrap())), *hash);
            assert_eq!(pulled["group_hash"], **hash);
            assert_eq!(pulled["content_hash"], **reference);
            let again = done(&home.run(&arguments, &registry.url()).output().unwrap());
            assert_eq!(again["bytes_received"], 0);
            assert!(home.beside().is_empty());
            fs::write(&file, b"something else").unwrap();
            assert_eq!(failed(&home.run(&arguments, &registry.url()).output().unwrap(), 2)["code"], "config_invalid");
        }
    }
    // Both groups in one directory.
    let home = Home::new();
    let target = home.target();
    for group in artifact.groups.keys() {
        let arguments = ["pull", &artifact.content_hash, target.to_str().unwrap(), "--group", group];
        done(&home.run(&arguments, &registry.url()).output().unwrap());
    }
    assert_eq!(fs::read_dir(&target).unwrap().count(), 2);
}

#[test]
fn what_nobody_has_is_an_integrity_error_for_the_caller() {
    let (registry, home) = (Registry::start(), Home::new());
    let error = failed(&home.pull(&"0".repeat(64), &registry.url()), 1);
    assert_eq!(error["code"], "checkpoint_integrity");
    assert!(error["message"].as_str().unwrap().contains("not in the registry"));
    assert!(!home.target().exists());
}

#[test]
fn a_place_that_holds_something_else_is_left_alone() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(14, 2, 1));
    done(&home.push(artifact.write().path(), &registry.url()));
    fs::create_dir(home.target()).unwrap();
    fs::write(home.target().join("thesis.tex"), b"years of work").unwrap();
    failed(&home.pull(&artifact.content_hash, &registry.url()), 2);
    assert_eq!(fs::read(home.target().join("thesis.tex")).unwrap(), b"years of work");
    fs::remove_file(home.target().join("thesis.tex")).unwrap();
    // An empty directory holds nothing that could be lost.
    done(&home.pull(&artifact.content_hash, &registry.url()));
    is_whole(&home.target(), &artifact);
    // The right size is not the right artifact.
    let file = home.target().join("weights.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    failed(&home.pull(&artifact.content_hash, &registry.url()), 2);
}

#[test]
fn a_directory_that_disagrees_with_its_header_is_not_stored() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(15, 3, 1));
    let directory = artifact.write();
    let weights = directory.path().join("weights.safetensors");
    let right = fs::read(&weights).unwrap();
    let mut wrong = right.clone();
    *wrong.last_mut().unwrap() ^= 1;
    fs::write(&weights, wrong).unwrap();
    let error = failed(&home.push(directory.path(), &registry.url()), 1);
    assert_eq!(error["code"], "checkpoint_integrity");
    assert_eq!(error["fields"]["expected_hash"], *artifact.content_hash);
    assert_eq!(home.remembered(), 0);
    failed(&home.pull(&artifact.content_hash, &registry.url()), 1);
    fs::write(&weights, right).unwrap();
    assert_eq!(done(&home.push(directory.path(), &registry.url()))["created"], true);
    // It is stored now, but that says nothing about a directory that is wrong.
    fs::write(&weights, vec![0; 10]).unwrap();
    assert_eq!(failed(&home.push(directory.path(), &registry.url()), 1)["code"], "checkpoint_integrity");
}

#[test]
fn another_header_under_the_same_hash_is_refused_by_the_server() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(16, 2, 1));
    let directory = artifact.write();
    done(&home.push(directory.path(), &registry.url()));
    let header = directory.path().join("header.json");
    fs::write(&header, artifact.header.replace("2026-06-11", "2026-06-12")).unwrap();
    let pushed = done(&home.push(directory.path(), &registry.url()));
    assert_eq!((&pushed["created"], &pushed["bytes_sent"]), (&false.into(), &0.into()));
    fs::write(&header, artifact.header.replace("a5a5", "b6b6")).unwrap();
    let error = failed(&home.push(directory.path(), &registry.url()), 1);
    assert_eq!((&error["code"], &error["status"]), (&"checkpoint_integrity".into(), &409.into()));
    assert_eq!(error["fields"]["differing_fields"], serde_json::json!(["config_hash"]));
}

#[test]
fn a_damaged_copy_is_not_served_and_a_push_repairs_it() {
    let (registry, home, artifact) = (Registry::start(), Home::new(), large(17, 2, 1));
    let directory = artifact.write();
    done(&home.push(directory.path(), &registry.url()));
    let size = artifact.files[0].1.len() as u64;
    let stored: Vec<_> =
        registry.files().into_iter().filter(|path| fs::metadata(path).unwrap().len() == size).collect();
    assert_eq!(stored.len(), 1);
    let mut bytes = fs::read(&stored[0]).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&stored[0], bytes).unwrap();
    let error = failed(&home.pull(&artifact.content_hash, &registry.url()), 1);
    assert_eq!(error["code"], "checkpoint_integrity");
    assert!(!home.target().exists());
    let pushed = done(&home.push(directory.path(), &registry.url()));
    assert_eq!(pushed["bytes_sent"], artifact.size());
    done(&home.pull(&artifact.content_hash, &registry.url()));
    is_whole(&home.target(), &artifact);
}
