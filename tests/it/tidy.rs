//! Rules of the house that no compiler checks. ARCHITECTURE.md says why they are; the tables here are the same ones.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Who may import whom: the first row that fits a file holds. A layer may always import from itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("src/core", &[]),
    ("src/api", &["core"]),
    ("src/store", &["core"]),
    ("src/service", &["core", "api", "store"]),
    // The connection layer could be a crate of its own.
    ("src/http/conn", &["nothing"]),
    ("src/http", &["core", "api", "service"]),
    ("src/client", &["core", "api"]),
    ("src/config", &["core", "service", "http"]),
    ("src/telemetry.rs", &["config"]),
    ("src/cli", &["core", "api", "store", "service", "http", "client", "config", "telemetry"]),
    ("src/main.rs", &["cli"]),
    ("src/lib.rs", &["nothing"]),
];

/// Where an external crate may be used; a crate that is not listed may be used anywhere.
const CRATES: &[(&str, &[&str])] = &[
    ("anyhow", &["src/cli", "src/main.rs"]),
    ("axum", &["src/http"]),
    ("base64", &["src/http", "src/client"]),
    ("blake3", &["src/core/seed.rs"]),
    ("bytes", &["src/store/blob", "src/service", "src/http", "src/client"]),
    ("clap", &["src/cli", "src/main.rs"]),
    ("figment", &["src/config"]),
    ("futures_util", &["src/service", "src/http", "src/client"]),
    ("getrandom", &["src/service", "src/http/layer"]),
    ("http_body", &["src/http/conn"]),
    ("hyper", &["src/http/conn"]),
    ("hyper_util", &["src/http/conn"]),
    ("indicatif", &["src/cli"]),
    ("prometheus_client", &["src/service/metrics.rs"]),
    ("pulldown_cmark", &["src/http/docs.rs"]),
    ("quick_cache", &["src/service"]),
    ("reqwest", &["src/client"]),
    ("rustix", &["src/store/blob", "src/store/crash.rs", "src/http/conn", "src/client"]),
    ("rustls", &["src/client"]),
    ("sha2", &["src/core/sha256"]),
    ("sqlx", &["src/store/meta"]),
    ("thiserror", &["src/store", "src/service", "src/client", "src/config"]),
    ("tokio", &["src/service", "src/http", "src/client", "src/cli", "src/main.rs"]),
    ("tower", &["src/http/conn"]),
    ("tracing", &["src/service", "src/http", "src/client", "src/cli", "src/telemetry.rs"]),
    ("tracing_subscriber", &["src/telemetry.rs", "src/config"]),
    ("utoipa", &["src/api", "src/http"]),
    ("utoipa_axum", &["src/http/router.rs"]),
    ("utoipa_swagger_ui", &["src/http/docs.rs"]),
];

/// What the pure core does without.
const IMPURE: [&str; 9] =
    ["std::fs", "std::io", "std::net", "std::env", "std::process", "std::thread", "std::time", "async fn", ".await"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["utils.rs", "helpers.rs", "common.rs", "types.rs", "misc.rs"];

const MOST_LINES: usize = 400;

/// A source file without its comments, so that only code is judged.
struct Source {
    path: String,
    text: String,
    code: String,
    /// Files of tests, and what follows `#[cfg(test)]` in a file, may use more.
    own: String,
}

fn read(dir: &Path, out: &mut Vec<Source>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap()).collect();
            let code = code.join("\n");
            let path = path.to_str().unwrap().to_owned();
            let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
            let own = if is_test { "" } else { code.split("#[cfg(test)]\nmod tests {").next().unwrap() };
            let own = own.to_owned();
            out.push(Source { path, text, code, own });
        }
    }
}

fn sources(dir: &str) -> Vec<Source> {
    let mut out = Vec::new();
    read(Path::new(dir), &mut out);
    assert!(!out.is_empty());
    out
}

/// The words that follow `prefix` in a text, such as `core` after `crate::`.
fn following<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let word = |rest: &'a str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    code.match_indices(prefix).map(move |(at, _)| word(&code[at + prefix.len()..]))
}

/// True when `name::` stands in the code as the beginning of a path.
fn uses(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    code.match_indices(&path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

fn report(broken: &str) {
    assert!(broken.is_empty(), "\n{broken}\nARCHITECTURE.md says why. Change the code, or the table there and here.");
}

#[test]
fn layers_import_only_what_lies_below_them() {
    let mut broken = String::new();
    for Source { path, own, .. } in sources("src") {
        let Some((layer, allowed)) = LAYERS.iter().find(|(layer, _)| path.starts_with(layer)) else {
            let _ = writeln!(broken, "{path} belongs to no layer");
            continue;
        };
        let own_name = layer.trim_start_matches("src/").split('/').next().unwrap();
        for import in following(&own, "crate::").chain(following(&own, "cairn::")) {
            let inside = import == own_name && *allowed != ["nothing"];
            if import != "tests" && !inside && !allowed.contains(&import) {
                let _ = writeln!(broken, "{path} uses {import}");
            }
        }
    }
    for (from, to) in [("src/store/meta", "blob"), ("src/store/blob", "meta")] {
        for Source { path, code, .. } in sources(from) {
            if code.contains(&format!("store::{to}")) || code.contains(&format!("super::{to}")) {
                let _ = writeln!(broken, "{path} uses store::{to}");
            }
        }
    }
    // An endpoint knows the service and what all endpoints share, but no other endpoint.
    let endpoints = ["artifact", "upload", "run", "document"];
    for Source { path, code, .. } in endpoints.iter().flat_map(|name| sources(&format!("src/http/{name}"))) {
        let other = endpoints.iter().any(|name| code.contains(&format!("http::{name}::"))) || code.contains("super::");
        if !path.ends_with("mod.rs") && other {
            let _ = writeln!(broken, "{path} uses another endpoint");
        }
    }
    report(&broken);
}

#[test]
fn external_crates_stay_in_their_place() {
    let mut broken = String::new();
    let sources = sources("src");
    for (name, places) in CRATES {
        for Source { path, own, .. } in &sources {
            if uses(own, name) && !places.iter().any(|place| path.starts_with(place)) {
                let _ = writeln!(broken, "{path} uses {name}, which belongs to {}", places.join(", "));
            }
        }
    }
    for Source { path, own, .. } in sources.iter().filter(|source| source.path.starts_with("src/core")) {
        for impure in IMPURE.iter().filter(|impure| own.contains(**impure)) {
            let _ = writeln!(broken, "{path} uses {impure}; the core is pure");
        }
    }
    report(&broken);
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut broken = String::new();
    for Source { path, text, code, .. } in sources("src").into_iter().chain(sources("tests")) {
        if !text.starts_with("//! ") {
            let _ = writeln!(broken, "{path} does not begin with what it is (//!)");
        }
        let lines = text.lines().count();
        if lines > MOST_LINES {
            let _ = writeln!(broken, "{path} has {lines} lines; split it, {MOST_LINES} is the most");
        }
        if EMPTY_NAMES.iter().any(|name| path.ends_with(&format!("/{name}"))) {
            let _ = writeln!(broken, "{path}: the name says nothing; which concept is it?");
        }
        // Put together here, so that this file does not break its own rule.
        for word in
            [["to", "do!"], ["#[ign", "ore"], ["[all", "ow("], ["unimpl", "emented!"]].map(|parts| parts.concat())
        {
            if code.contains(&word) {
                let _ = writeln!(broken, "{path} contains {word}");
            }
        }
    }
    report(&broken);
}

/// Weights are larger than memory, so what handlers of artifacts and uploads take is a stream.
#[test]
fn no_endpoint_takes_a_body_whole() {
    let mut broken = String::new();
    for Source { path, own, .. } in sources("src/http/artifact").into_iter().chain(sources("src/http/upload")) {
        for word in ["to_bytes", ".bytes()", ".collect()", "Multipart", "BodyExt"] {
            if own.contains(word) {
                let _ = writeln!(broken, "{path} contains {word}");
            }
        }
        for handler in own.split("pub async fn ").skip(1) {
            let parameters = handler.split(") ->").next().unwrap();
            for extractor in ["Bytes", "Json<", "Json(", "Form<", "body: String", "RawForm"] {
                if parameters.contains(extractor) {
                    let _ = writeln!(broken, "{path}: a handler takes {extractor}");
                }
            }
        }
    }
    report(&broken);
}

/// Names in backticks in a page.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// The map names what is there: its paths exist, and its tables are those of this file.
#[test]
fn the_map_is_true() {
    let page = fs::read_to_string("ARCHITECTURE.md").unwrap();
    let mut broken = String::new();
    for name in quoted(&page) {
        let path = name.trim_end_matches('/');
        let is_path = path
            .split_once('/')
            .is_some_and(|(first, _)| Path::new("src").join(first).exists() || Path::new(first).exists());
        let known =
            ["", "src/", "src/core/", "src/service/"].iter().any(|base| Path::new(&format!("{base}{path}")).exists());
        if (is_path || path.ends_with(".rs")) && !path.contains(['{', ' ']) && !known {
            let _ = writeln!(broken, "ARCHITECTURE.md names {path}, which is not there");
        }
    }
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for (name, places) in CRATES {
        let name = format!("`{}`", name.replace('_', "-"));
        let row = rows.iter().find(|row| row.replace('_', "-").split(" | ").next().unwrap().contains(&name));
        let same = row.is_some_and(|row| {
            places.iter().all(|place| row.contains(&format!("`{}`", place.trim_start_matches("src/"))))
        });
        if !same {
            let _ = writeln!(broken, "ARCHITECTURE.md says something else of {name} than {places:?}");
        }
    }
    report(&broken);
}

/// Relative links in the pages lead to files.
#[test]
fn links_lead_somewhere() {
    let mut broken = String::new();
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "openapi/README.md",
        "migrations/README.md",
    ];
    let decisions = fs::read_dir("docs/adr").unwrap().chain(fs::read_dir("docs").unwrap());
    let decisions = decisions.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    for page in pages.iter().map(|page| Path::new(page).to_owned()).chain(decisions) {
        let text = fs::read_to_string(&page).unwrap_or_default();
        for target in text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap()) {
            let local = !target.is_empty() && !target.contains("://") && !target.starts_with('/');
            if local && !page.parent().unwrap().join(target).exists() {
                let _ = writeln!(broken, "{} links to {target}, which is not there", page.display());
            }
        }
    }
    for entry in fs::read_dir("docs/adr").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" && !fs::read_to_string("docs/adr/README.md").unwrap().contains(&name) {
            let _ = writeln!(broken, "docs/adr/README.md does not list {name}");
        }
    }
    report(&broken);
}
