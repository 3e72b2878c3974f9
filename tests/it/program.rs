//! The program from outside: exit codes, what goes where, and how it says what is wrong.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::vectors::{cairn, command, golden, object};

const HASH: &str = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A copy of a right checkpoint that a test may spoil.
fn checkpoint() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["header.json", "weights.safetensors"] {
        fs::copy(golden().join("checkpoints/single-fp32").join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn verify(directory: &Path) -> Output {
    cairn([Path::new("verify"), directory, Path::new("--json")])
}

/// The code of a refused directory.
fn verdict(directory: &Path) -> String {
    let output = verify(directory);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    object(&output)["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn help_and_version_explain_themselves() {
    let version = cairn(["--version"]);
    assert_eq!(text(&version.stdout).trim(), concat!("cairn ", env!("CARGO_PKG_VERSION")));
    for command in [
        &["serve"][..],
        &["push"],
        &["pull"],
        &["verify"],
        &["hash"],
        &["log"],
        &["run", "create"],
        &["run", "list"],
        &["run", "show"],
        &["run", "abort"],
        &["run", "wait"],
        &["document", "put"],
        &["document", "commit-dataset"],
    ] {
        let help = cairn(command.iter().chain(&["--help"]));
        assert!(help.status.success());
        assert!(text(&help.stdout).contains("Example"), "{command:?} --help has no example");
    }
}

#[test]
fn usage_errors_are_2_and_nothing_goes_to_standard_output() {
    for arguments in [
        &["push", "x", "--commit"][..],
        &["push", "x", "--record", "y"],
        &["push", "x", "--run", "r", "--record", "y"],
        &["bless"][..],
        &["verify"],
        &["hash", "a", "b"],
        &["pull", "x"],
        &["--frob", "hash", "x"],
        &["run"],
        &["run", "create", "r"],
    ] {
        let output = cairn(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}");
    }
}

#[test]
fn text_for_people_is_aligned_and_json_is_for_programs() {
    let directory = checkpoint();
    let output = cairn([Path::new("hash"), directory.path()]);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 3);
    for (line, word) in lines.iter().zip(["content  ", "group    ", "file     "]) {
        assert!(line.starts_with(word), "{line}");
        assert_eq!(line[9..].split(' ').next().unwrap().len(), 64);
    }
    let output = cairn([Path::new("verify"), directory.path()]);
    assert!(text(&output.stdout).starts_with("ok  "));
    fs::write(directory.path().join("weights.safetensors"), b"").unwrap();
    let output = cairn([Path::new("verify"), directory.path()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    for part in ["error: ", "help:  ", "code:  checkpoint_integrity"] {
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

#[test]
fn what_lies_in_the_directory_decides_the_code() {
    let directory = checkpoint();
    let (header, weights) = (directory.path().join("header.json"), directory.path().join("weights.safetensors"));
    assert!(verify(directory.path()).status.success());

    fs::create_dir(directory.path().join("sub")).unwrap();
    assert_eq!(verdict(directory.path()), "checkpoint_integrity");
    fs::remove_dir(directory.path().join("sub")).unwrap();

    fs::write(directory.path().join("README.md"), b"hello").unwrap();
    assert_eq!(verdict(directory.path()), "checkpoint_integrity");
    fs::remove_file(directory.path().join("README.md")).unwrap();

    let elsewhere = tempfile::tempdir().unwrap();
    for path in [&header, &weights] {
        let moved = elsewhere.path().join("file");
        fs::rename(path, &moved).unwrap();
        symlink(&moved, path).unwrap();
        assert_eq!(verdict(directory.path()), "checkpoint_integrity");
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
        assert_eq!(verdict(directory.path()), "checkpoint_integrity");
        fs::remove_dir(path).unwrap();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        assert_eq!(verdict(directory.path()), "checkpoint_integrity");
        fs::remove_file(path).unwrap();
        fs::rename(&moved, path).unwrap();
    }
    assert!(verify(directory.path()).status.success());

    let moved = elsewhere.path().join("file");
    fs::rename(&weights, &moved).unwrap();
    assert_eq!(verdict(directory.path()), "checkpoint_integrity");
    fs::rename(&moved, &weights).unwrap();
    fs::remove_file(&header).unwrap();
    assert_eq!(verdict(directory.path()), "artifact_invalid");
}

#[test]
fn an_index_is_compared_with_the_files() {
    let directory = checkpoint();
    let index = directory.path().join("weights.index.json");
    fs::write(&index, br#"{"metadata":{"total_size":48},"weight_map":{"encoder.w":"weights.safetensors"}}"#).unwrap();
    let output = verify(directory.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(object(&output)["files"]["weights.index.json"].is_string());
    fs::write(&index, br#"{"weight_map":{"encoder.v":"weights.safetensors"}}"#).unwrap();
    assert_eq!(verdict(directory.path()), "checkpoint_integrity");
}

#[test]
fn an_expected_hash_that_is_no_hash_is_a_mismatch() {
    let directory = checkpoint();
    for expected in ["", "latest", &HASH.to_uppercase(), HASH] {
        let output =
            cairn([Path::new("verify"), directory.path(), Path::new("--json"), "--expect".as_ref(), expected.as_ref()]);
        assert_eq!(output.status.code(), Some(1));
        let error = &object(&output)["error"];
        assert_eq!(error["code"], "checkpoint_integrity");
        assert_eq!(error["fields"]["expected_hash"], *expected);
        assert!(error["fields"]["got_hash"].is_string());
    }
}

#[test]
fn a_directory_that_does_not_exist_could_not_be_checked() {
    let output = cairn(["verify", "no/such/directory", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(object(&output)["ok"], false);
    assert_eq!(object(&output)["error"]["code"], "artifact_invalid");
}

/// An address of this machine where nobody listens.
fn nowhere() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{free}")
}

#[test]
fn a_server_that_is_not_there_is_2_with_advice_and_without_the_token() {
    let directory = checkpoint();
    let target = tempfile::tempdir().unwrap();
    let pulled = target.path().join("model");
    for arguments in [vec!["push", directory.path().to_str().unwrap()], vec!["pull", HASH, pulled.to_str().unwrap()]] {
        let output = command(&arguments)
            .args(["--json", "--server", &nowhere(), "--token", "swordfish"])
            .env("XDG_STATE_HOME", target.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let error = &object(&output)["error"];
        assert_eq!(error["code"], "registry_unavailable");
        assert!(error["remediation"].as_str().unwrap().contains("cairn serve"));
        assert!(!text(&output.stderr).contains("swordfish") && !text(&output.stdout).contains("swordfish"));
    }
    assert!(!pulled.exists());
}

#[test]
fn a_wrong_directory_is_not_even_offered_to_a_server() {
    let directory = checkpoint();
    let weights = directory.path().join("weights.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    bytes.push(0);
    fs::write(&weights, bytes).unwrap();
    let output = command(["push", directory.path().to_str().unwrap(), "--json", "--server", &nowhere()]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(object(&output)["error"]["code"], "checkpoint_integrity");
}

#[test]
fn references_that_name_nothing_are_usage() {
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("model");
    for reference in ["", "latest", &HASH[1..], "run@head", "../x@1", "artifact://round-00012/encoder", "mem://theta"] {
        let output = cairn(["pull", reference, target.to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(2), "{reference}");
        assert_eq!(object(&output)["error"]["code"], "config_invalid", "{reference}");
    }
    let locator = "artifact://c/run/round-00012/encoder";
    for (reference, option, value) in
        [(HASH, "--group", "action_head"), (locator, "--group", "predictor"), (locator, "--run", "another")]
    {
        let output = cairn(["pull", reference, target.to_str().unwrap(), "--json", option, value]);
        assert_eq!(output.status.code(), Some(2), "{option} {value}");
    }
}

#[test]
fn what_is_there_already_is_not_fetched_again() {
    let directory = checkpoint();
    let hash = object(&verify(directory.path()))["content_hash"].as_str().unwrap().to_owned();
    let pull = ["pull", &hash, directory.path().to_str().unwrap(), "--json", "--server", &nowhere()];
    let output = cairn(pull);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(object(&output)["bytes_received"], 0);
    assert_eq!(object(&output)["verified"], true);
}

#[test]
fn an_interrupt_is_130() {
    // It takes the connection and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("model");
    let server = format!("http://{}", listener.local_addr().unwrap());
    let child = command(["pull", HASH, target.to_str().unwrap(), "--json", "--server", &server])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    // The request has been written, so the program listens for the signal.
    connection.read_exact(&mut [0; 4]).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(130), ""));
    assert!(!target.exists());
}
