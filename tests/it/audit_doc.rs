//! `docs/audit.md` and the list of what an audit finds agree, both ways.

use cairn::core::audit::AuditCode;

const DOCUMENT: &str = include_str!("../../docs/audit.md");

#[test]
fn table_and_codes_agree_in_order() {
    let documented: Vec<(String, String, String)> = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [code, severity, meaning] = cells[..] else { panic!("not three cells: {line}") };
            (code.trim_matches('`').to_owned(), severity.to_owned(), meaning.to_owned())
        })
        .filter(|(code, ..)| code.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    let codes: Vec<(String, String, String)> = AuditCode::ALL
        .iter()
        .map(|code| (code.as_str().to_owned(), code.severity().as_str().to_owned(), code.meaning().to_owned()))
        .collect();
    assert_eq!(documented, codes, "docs/audit.md lists each code of core::audit::finding once, in its order");
}
