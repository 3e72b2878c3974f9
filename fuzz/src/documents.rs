//! What must hold for any document, record, proof, registration, locator and probe. Shared with the property tests of
//! `tests/it/properties.rs`; each check panics when it does not hold.

use cairn::core::document::contribution::{ContributionRecord, check_ledger, ledger_line};
use cairn::core::document::migrate::latest;
use cairn::core::document::probe::ProbeReader;
use cairn::core::document::{Document, Kind};
use cairn::core::error::DomainError;
use cairn::core::json::{Dialect, Value};
use cairn::core::locator::Locator;
use cairn::core::merkle::ProofRequest;
use cairn::core::run::Pins;

/// A refusal is plain text of ours, at no length.
fn plain(error: &DomainError) {
    assert!(error.message().chars().all(|c| c == ' ' || c == '…' || c.is_ascii_graphic()), "{:?}", error.message());
    assert!(error.message().len() < 600 && !error.remediation().is_empty());
}

/// JSON of any kind: read, or refused; what is read has one canonical form.
pub fn document(data: &[u8]) {
    if let Ok(value) = Value::parse(data) {
        for dialect in [Dialect::Ascii, Dialect::Unicode] {
            let text = value.canonical(dialect);
            let again = Value::parse(&text).unwrap();
            assert_eq!(again.canonical(dialect), text);
        }
    }
    for kind in Kind::ALL {
        match Document::decode(*kind, data) {
            Err(error) => plain(&error),
            Ok(_) => {
                let view = latest(*kind, data).unwrap();
                assert!(Document::decode(*kind, &view).is_ok());
            }
        }
    }
    match Pins::parse(data) {
        Ok(pins) => assert!(pins.differences(&pins).is_empty()),
        Err(error) => plain(&error),
    }
    match ProofRequest::parse(data) {
        Ok(request) => drop(request.verify()),
        Err(error) => plain(&error),
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Locator::parse(text);
    }
}

/// A record has one hash however it is spelled, and is one line in a ledger; a ledger is never a reason to panic.
pub fn ledger(data: &[u8]) {
    match (ContributionRecord::parse(data), std::str::from_utf8(data)) {
        (Ok(record), Ok(text)) => {
            let line = ledger_line(text, &record);
            assert!(!line.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']));
            for spelling in [line, record.line()] {
                let again = ContributionRecord::parse(spelling.as_bytes()).unwrap();
                assert_eq!(again.hash(), record.hash());
                assert_eq!(again, record);
            }
        }
        (Ok(_), Err(_)) => panic!("a record that is no text"),
        (Err(error), _) => plain(&error),
    }
    if let Err(error) = check_ledger(data, None) {
        plain(&error);
    }
}

/// The outcome of reading a probe does not depend on how its bytes are cut.
pub fn probe(data: &[u8], cut: usize) {
    let read = |pieces: &[&[u8]]| {
        let mut reader = ProbeReader::default();
        pieces.iter().try_for_each(|piece| reader.push(piece))?;
        reader.finish()
    };
    let (front, back) = data.split_at(cut.min(data.len()));
    let whole = read(&[data]);
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    for pieces in [vec![front, back], bytes] {
        match (&whole, read(&pieces)) {
            (Ok(one), Ok(other)) => assert_eq!(*one, other),
            (Err(one), Err(other)) => assert_eq!(one.code(), other.code()),
            (one, other) => panic!("{one:?} and {other:?}"),
        }
    }
    if let Err(error) = whole {
        plain(&error);
    }
}
