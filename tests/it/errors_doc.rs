//! `docs/errors.md` and the list of codes agree, both ways.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use axum::response::IntoResponse as _;
use cairn::core::error::{DomainError, ErrorCode};
use cairn::http::problem::Failure;

const DOCUMENT: &str = include_str!("../../docs/errors.md");

/// One section of the document.
struct Section<'a> {
    code: &'a str,
    bold: bool,
    text: &'a str,
}

impl<'a> Section<'a> {
    /// The value of a `- Label: value` line.
    fn line(&self, label: &str) -> &'a str {
        let found = self.text.lines().find_map(|line| line.strip_prefix("- ")?.strip_prefix(label)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("docs/errors.md: {} has no line `- {label}: …`", self.code))
    }
}

fn sections() -> Vec<Section<'static>> {
    DOCUMENT
        .split("\n## ")
        .skip(1)
        .map(|section| {
            let (heading, text) = section.split_once('\n').unwrap();
            let plain = heading.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
            Section { code: plain.unwrap_or(heading), bold: plain.is_some(), text }
        })
        .collect()
}

/// Rust sources outside tests, without the enum itself and the table of statuses.
fn sources(dir: &Path, out: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let skip = ["tests", "tests.rs"].iter().any(|name| path.ends_with(name))
            || path.ends_with("core/error.rs")
            || path.ends_with("http/problem.rs");
        if skip {
            continue;
        }
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            out.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap());
        }
    }
}

#[test]
fn document_and_codes_agree_in_order() {
    let documented: Vec<&str> = sections().iter().map(|section| section.code).collect();
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(documented, codes, "docs/errors.md lists each code of core::error::ErrorCode once, in its order");
}

#[test]
fn each_section_says_what_the_code_says() {
    for (section, code) in sections().iter().zip(ErrorCode::ALL) {
        assert_eq!(section.bold, code.is_critical(), "{code}: critical codes are bold, others are not");
        assert_eq!(section.line("Class"), format!("`{}`", code.class()), "{code}");
        for label in ["When", "Fields", "What to do"] {
            assert!(section.line(label).len() >= 4, "{code}: the line {label} is empty");
        }
        assert!(!code.remediation().trim().is_empty(), "{code} has no remediation");
        let usual = Failure::from(DomainError::new(*code, "")).into_response().status().as_u16();
        let statuses: Vec<u16> = section.line("HTTP").split(", ").map(|status| status.parse().unwrap()).collect();
        assert_eq!(statuses.first(), Some(&usual), "{code}: the usual status stands first");
        assert!(statuses.iter().all(|status| (400..600).contains(status)), "{code}");
    }
}

#[test]
fn not_raised_yet_is_true() {
    let mut source = String::new();
    // The client gives these codes to the statuses of whatever answers in a server's place.
    for layer in ["src/core", "src/service", "src/http"] {
        sources(Path::new(layer), &mut source);
    }
    // These stand for a whole kind of failure, or have a constructor of their own.
    let named_elsewhere =
        [ErrorCode::Internal, ErrorCode::RegistryMethod, ErrorCode::RegistryTimeout, ErrorCode::RegistryStorageFull];
    let mut wrong = String::new();
    for (section, code) in sections().iter().zip(ErrorCode::ALL) {
        let raised = named_elsewhere.contains(code) || source.contains(&format!("ErrorCode::{code:?}"));
        if raised == section.text.contains("Not raised yet.") {
            let _ = writeln!(wrong, "{code} is {}raised by the sources", if raised { "" } else { "not " });
        }
    }
    assert!(wrong.is_empty(), "correct `Not raised yet.` in docs/errors.md:\n{wrong}");
}

#[test]
fn every_carried_field_is_documented() {
    let mut source = String::new();
    for layer in ["src/core", "src/service", "src/http"] {
        sources(Path::new(layer), &mut source);
    }
    let carried: BTreeSet<&str> = source
        .split(".field(")
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        // `Debug` has a method of the same name.
        .filter(|name| *name != "id")
        .collect();
    assert!(carried.len() > 20, "the fields were not found");
    let lines: String = sections().iter().map(|section| section.line("Fields")).collect();
    let missing: Vec<&str> = carried.into_iter().filter(|name| !lines.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/errors.md does not list these fields: {missing:?}");
}
