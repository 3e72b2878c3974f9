//! The example configurations are right and complete, and what is wrong is refused with its name, value and cure.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cairn::config::Config;
use serde_json::Value;

const EXAMPLES: [&str; 3] = ["dev", "test", "production.example"];

fn example(name: &str) -> PathBuf {
    Path::new("configs").join(format!("{name}.toml"))
}

/// Every key with its section.
fn keys(config: &Value) -> BTreeSet<String> {
    let sections = config.as_object().unwrap();
    let of = |(section, keys): (&String, &Value)| -> Vec<String> {
        keys.as_object().unwrap().keys().map(|key| format!("{section}.{key}")).collect()
    };
    sections.iter().flat_map(of).collect()
}

fn listed(name: &str) -> BTreeSet<String> {
    let file: figment::value::Dict = figment::Figment::new()
        .merge(<figment::providers::Toml as figment::providers::Format>::file_exact(example(name)))
        .extract()
        .unwrap();
    keys(&serde_json::to_value(file).unwrap())
}

fn refused(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cairn.toml");
    std::fs::write(&file, text).unwrap();
    match Config::load(Some(&file)) {
        Ok(_) => panic!("{text:?} is taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_example_is_usable() {
    for name in EXAMPLES {
        Config::load(Some(&example(name))).unwrap();
    }
    let production = Config::load(Some(&example("production.example"))).unwrap();
    assert_eq!(production.limits, Config::default().limits);
    assert!(!production.server.allow_unauthenticated);
}

#[test]
fn the_production_example_lists_every_key() {
    assert_eq!(listed("production.example"), keys(&serde_json::to_value(Config::default()).unwrap()));
}

#[test]
fn every_key_of_an_example_is_explained() {
    for name in EXAMPLES {
        let text = std::fs::read_to_string(example(name)).unwrap();
        let explained: Vec<&str> = text
            .split("\n\n")
            .flat_map(|block| block.lines().scan("", |comment, line| Some((std::mem::replace(comment, line), line))))
            .filter(|(_, line)| line.contains(" = ") && !line.starts_with('#'))
            .map(|(comment, line)| {
                let right = comment.starts_with('#') && comment.contains("Default:")
                    || comment.ends_with("below the working directory.");
                assert!(right, "configs/{name}.toml: `{line}` has no comment with its default above it");
                line
            })
            .collect();
        assert_eq!(explained.len(), listed(name).len());
    }
}

/// The defaults that the comments of the production example tell are the real ones.
#[test]
fn the_told_defaults_are_true() {
    let text = std::fs::read_to_string(example("production.example")).unwrap();
    let defaults = serde_json::to_value(Config::default()).unwrap();
    let mut section = "";
    let mut told = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((_, value)) = line.split_once("Default: ") {
            told = value.split([',', ' ']).next().unwrap().trim_end_matches('.');
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert_eq!(defaults[section][key].to_string(), told, "{section}.{key}");
        }
    }
}

#[test]
fn what_is_wrong_is_named_with_its_value_and_what_would_be_right() {
    for (text, told) in [
        ("[server]\nport = 1", ["server.port", "is not a key", "listen"]),
        ("[sever]\nlisten = \"127.0.0.1:1\"", ["sever", "is not a key", "server"]),
        ("[server]\nlisten = \"localhost\"", ["server.listen", "\"localhost\"", "127.0.0.1:8417"]),
        ("[server]\nlisten = \"0.0.0.0:8417\"", ["server.listen", "0.0.0.0:8417", "allow_unauthenticated"]),
        ("[server]\nallow_unauthenticated = \"yes\"", ["server.allow_unauthenticated", "\"yes\"", "true or false"]),
        ("[server]\nkeep_alive_seconds = 0", ["server.keep_alive_seconds", "is 0", "1 to 86400"]),
        ("[server]\nwrite_idle_seconds = \"1m\"", ["server.write_idle_seconds", "\"1m\"", "1 to 86400"]),
        ("[server]\nshutdown_grace_seconds = -1", ["server.shutdown_grace_seconds", "is -1", "0 to 86400"]),
        ("[storage]\ndata_dir = 7", ["storage.data_dir", "is 7", "a directory"]),
        ("[storage]\ndatabase = 7", ["storage.database", "is 7", "postgres://"]),
        ("[storage]\ndatabase = \"mysql\"", ["storage.database", "is mysql", "sqlite"]),
        ("[storage]\ndatabase = \"mysql://u:p@h/d\"", ["storage.database", "is mysql://…;", "postgres://"]),
        ("[upload]\nsession_hours = 0", ["upload.session_hours", "is 0", "1 to 8760"]),
        ("[upload]\nbody_idle_seconds = 1.5", ["upload.body_idle_seconds", "is 1.5", "1 to 86400"]),
        ("[upload]\ncheckpoint_bytes = 5", ["upload.checkpoint_bytes", "is 5", "1048576"]),
        ("[limits]\nheader_bytes = 9223372036854775807", ["limits.header_bytes", "9223372036854775807", "268435456"]),
        ("[limits]\ncontainer_header_bytes = 1", ["limits.container_header_bytes", "is 1", "2 to 100000000"]),
        ("[limits]\ntensors = 0", ["limits.tensors", "is 0", "1 to 1000000"]),
        ("[limits]\nfile_bytes = 0", ["limits.file_bytes", "is 0", "a whole number"]),
        ("[limits]\nartifact_bytes = []", ["limits.artifact_bytes", "is []", "a whole number"]),
        ("[log]\nformat = \"xml\"", ["log.format", "\"xml\"", "text or json"]),
        ("[log]\nfilter = \"cairn=loud\"", ["log.filter", "cairn=loud", "info"]),
        ("server = 3", ["server", "is 3", "expected"]),
        ("[server", ["configuration", "TOML", "line 1"]),
    ] {
        let error = refused(text);
        for word in told {
            assert!(error.contains(word), "{text:?}: {error:?} does not tell {word:?}");
        }
    }
    let missing = Config::load(Some(Path::new("configs/no-such.toml"))).unwrap_err().to_string();
    assert!(missing.contains("configs/no-such.toml"), "{missing}");
}

/// A server of the real program; killed at the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(arguments: &[&str], environment: &[(&str, &str)]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
    command.args(["serve", "--json"]).args(arguments).env_clear().envs(environment.iter().copied());
    Server(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Where it listens, once it does.
fn address(server: &mut Server) -> String {
    let mut line = String::new();
    BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    told["listening"].as_str().unwrap().to_owned()
}

/// What it says when it does not start.
fn complaint(server: &mut Server) -> String {
    let mut text = String::new();
    server.0.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
    assert!(!server.0.wait().unwrap().success());
    text
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (by_file, by_environment, by_flag) = (place("by-file"), place("by-environment"), place("by-flag"));
    let file = place("cairn.toml");
    let text = format!("[server]\nlisten = \"127.0.0.2:0\"\n[storage]\ndata_dir = {by_file:?}\n");
    std::fs::write(&file, text).unwrap();

    let mut server = serve(&["--config", &file], &[]);
    assert!(address(&mut server).starts_with("http://127.0.0.2:"));
    assert!(Path::new(&by_file).join("cairn.sqlite").exists());

    let environment = [("CAIRN_SERVER__LISTEN", "127.0.0.3:0"), ("CAIRN_STORAGE__DATA_DIR", by_environment.as_str())];
    let mut server = serve(&["--config", &file], &environment);
    assert!(address(&mut server).starts_with("http://127.0.0.3:"));
    assert!(Path::new(&by_environment).join("cairn.sqlite").exists());

    let flags = ["--config", &file, "--listen", "127.0.0.4:0", "--data-dir", &by_flag];
    let mut server = serve(&flags, &environment);
    assert!(address(&mut server).starts_with("http://127.0.0.4:"));
    assert!(Path::new(&by_flag).join("cairn.sqlite").exists());
}

/// A value that a flag replaces is not what stops the start.
#[test]
fn only_the_final_value_counts() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let environment = [("CAIRN_SERVER__LISTEN", "0.0.0.0:0")];
    let mut open = serve(&["--data-dir", data.to_str().unwrap()], &environment);
    assert!(complaint(&mut open).contains("server.listen is 0.0.0.0:0"));
    let mut closed = serve(&["--data-dir", data.to_str().unwrap(), "--listen", "127.0.0.1:0"], &environment);
    assert!(address(&mut closed).starts_with("http://127.0.0.1:"));
}

#[test]
fn the_environment_is_checked_like_the_file() {
    for (name, value, told) in [
        ("CAIRN_SERVER__PORT", "1", ["server.port", "is not a key", "listen"]),
        ("CAIRN_SEVER__LISTEN", "127.0.0.1:1", ["sever", "is not a key", "server"]),
        ("CAIRN_UPLOAD__CHECKPOINT_BYTES", "5", ["upload.checkpoint_bytes", "is 5", "1048576"]),
        ("CAIRN_LIMITS__TENSORS", "many", ["limits.tensors", "\"many\" in the environment", "1000000"]),
        ("CAIRN_LOG__FORMAT", "xml", ["log.format", "\"xml\"", "text or json"]),
    ] {
        let error = complaint(&mut serve(&[], &[(name, value)]));
        for word in told {
            assert!(error.contains(word), "{name}={value}: {error:?} does not tell {word:?}");
        }
    }
    // These are the client's.
    let dir = tempfile::tempdir().unwrap();
    let client = [("CAIRN_SERVER", "http://example.org"), ("CAIRN_TOKEN", "x")];
    let mut server = serve(&["--listen", "127.0.0.1:0", "--data-dir", dir.path().to_str().unwrap()], &client);
    assert!(address(&mut server).starts_with("http://127.0.0.1:"));
}
