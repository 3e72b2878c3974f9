//! `ContributionRecord` version 1 and the ledger they form (Lensemble data model section 13.3, RFC-0014 section 7).
//!
//! A record is hashed as `lensemble/provenance/ledger-record/v1`, a zero byte, and its canonical JSON with text as it
//! is; the next record names that hash. What a ledger file cannot show is that records are missing at its end, or that
//! the last one was rewritten: whoever wants to know must know the head.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::kind::gate;
use crate::core::digest::{ContentHash, DatasetRoot, RecordHash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::canonical::write_string;
use crate::core::json::{Dialect, Fields, Value};
use crate::core::sha256::Sha256;

const DOMAIN: &[u8] = b"lensemble/provenance/ledger-record/v1\0";

const CODE: ErrorCode = ErrorCode::MerkleVerifyFailed;

/// Who contributed to a round, with which data, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContributionRecord {
    /// The round t that was trained.
    pub round_index: u64,
    /// Who contributed, sorted.
    pub participants: Vec<String>,
    /// The data-set root of each.
    pub dataset_roots: BTreeMap<String, DatasetRoot>,
    /// H1 of the checkpoint that the round made: the one with round index t + 1.
    pub global_model_hash: ContentHash,
    /// Hash of the record before; `None` in the first.
    pub prev_record_hash: Option<RecordHash>,
}

impl ContributionRecord {
    /// Reads one record.
    ///
    /// # Errors
    /// `schema_version_mismatch` or `merkle_verify_failed`.
    pub fn parse(text: &[u8]) -> Result<Self, DomainError> {
        let value = Value::parse(text)
            .map_err(|why| DomainError::new(CODE, format!("the contribution record is not valid: {why}")))?;
        gate(&value, "contribution record", 1, CODE)?;
        let mut fields = Fields::of(value, "contribution_record", CODE)?;
        fields.take("schema_version")?;
        let round_index = fields.count("round_index")?;
        let participants = fields.strings("participants")?;
        if participants.is_empty() || participants.iter().any(String::is_empty) {
            return Err(fields.refuse("participants", "must name somebody, and nobody by an empty name"));
        }
        if !participants.is_sorted_by(|one, next| one < next) {
            return Err(fields.refuse("participants", "must be sorted by code point and name nobody twice"));
        }
        let dataset_roots: BTreeMap<String, DatasetRoot> = fields.digests("dataset_roots")?;
        if !dataset_roots.keys().eq(&participants) {
            return Err(fields.refuse("dataset_roots", "must have one root for each participant and no other"));
        }
        let global_model_hash = fields.digest("global_model_hash")?;
        // Lensemble demands the field: the first record says null.
        let prev = fields.take("prev_record_hash")?;
        fields.put("prev_record_hash", prev);
        let prev_record_hash = fields.optional_digest("prev_record_hash")?;
        fields.done()?;
        Ok(Self { round_index, participants, dataset_roots, global_model_hash, prev_record_hash })
    }

    /// The hash that the next record names.
    #[must_use]
    pub fn hash(&self) -> RecordHash {
        let mut hasher = Sha256::new();
        hasher.update(DOMAIN);
        hasher.update(&self.canonical());
        RecordHash::from_bytes(hasher.finalize())
    }

    /// The JSON that is hashed.
    fn canonical(&self) -> Vec<u8> {
        let text = |text: &dyn ToString| Value::String(text.to_string());
        let integer = |number: u64| Value::Integer(number.to_string().into());
        Value::Object(BTreeMap::from([
            (
                "dataset_roots".to_owned(),
                Value::Object(self.dataset_roots.iter().map(|(name, root)| (name.clone(), text(root))).collect()),
            ),
            ("global_model_hash".to_owned(), text(&self.global_model_hash)),
            ("participants".to_owned(), Value::Array(self.participants.iter().map(|name| text(name)).collect())),
            ("prev_record_hash".to_owned(), self.prev_record_hash.map_or(Value::Null, |hash| text(&hash))),
            ("round_index".to_owned(), integer(self.round_index)),
            ("schema_version".to_owned(), integer(1)),
        ]))
        .canonical(Dialect::Unicode)
    }

    /// The record as one line of a ledger file, in the spelling of Lensemble's writer, without the line's end. What
    /// Python takes for the end of a line is escaped, so that its reader finds the lines that there are.
    #[must_use]
    pub fn line(&self) -> String {
        let participants: Vec<String> = self.participants.iter().map(|name| quoted(name)).collect();
        let roots: Vec<String> =
            self.dataset_roots.iter().map(|(name, root)| format!(r#"{}:"{root}""#, quoted(name))).collect();
        format!(
            concat!(
                r#"{{"schema_version":1,"round_index":{},"participants":[{}],"dataset_roots":{{{}}},"#,
                r#""global_model_hash":"{}","prev_record_hash":{}}}"#
            ),
            self.round_index,
            participants.join(","),
            roots.join(","),
            self.global_model_hash,
            self.prev_record_hash.map_or_else(|| "null".to_owned(), |hash| format!(r#""{hash}""#)),
        )
    }

    /// Whether the record may stand after the one with this hash and round, or, without one, at the beginning.
    ///
    /// # Errors
    /// `provenance_failed` when it names another record, none, or one where there is none, and when its round is not
    /// above the round before; rounds may be left out.
    pub fn follows(&self, tail: Option<(&RecordHash, u64)>) -> Result<(), DomainError> {
        let refuse = |message: &str| {
            let expected = tail.map(|(hash, _)| hash.to_string());
            DomainError::new(ErrorCode::ProvenanceFailed, message)
                .field("expected_prev_record_hash", expected)
                .field("got_prev_record_hash", self.prev_record_hash.map(|hash| hash.to_string()))
                .field("round_index", self.round_index)
        };
        match (tail, self.prev_record_hash) {
            (None, Some(_)) => Err(refuse("the first record of a ledger names no record before it")),
            (Some(_), None) => Err(refuse("the ledger has its first record already")),
            (Some((hash, _)), Some(prev)) if prev != *hash => {
                Err(refuse("the record does not name the last record of the ledger"))
            }
            (Some((_, round)), Some(_)) if self.round_index <= round => {
                Err(refuse("the round of a record must be above the round of the record before")
                    .field("tail_round", round))
            }
            (None, None) | (Some(_), Some(_)) => Ok(()),
        }
    }
}

/// What Python's `str.splitlines` takes for the end of a line. `write_string` escapes those below the blank anyway.
const LINE_ENDS: [char; 10] =
    ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// A JSON string without a raw line end.
fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text, Dialect::Unicode);
    let mut quoted = String::from_utf8(out).unwrap_or_default();
    for end in LINE_ENDS {
        if quoted.contains(end) {
            quoted = quoted.replace(end, &format!("\\u{:04x}", u32::from(end)));
        }
    }
    quoted
}

/// The line that stands in the exported ledger for a record that came as `text`: the same bytes where they are one
/// line for every reader, else [`ContributionRecord::line`].
#[must_use]
pub fn ledger_line(text: &str, record: &ContributionRecord) -> String {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    if text.contains(LINE_ENDS) { record.line() } else { text.to_owned() }
}

/// What a ledger file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The hash of each record, in the order of the file.
    pub records: Vec<RecordHash>,
    /// The hash of the last record; `None` for an empty ledger.
    pub head: Option<RecordHash>,
    /// Whether each record follows from the one before, and the last one is the head that was asked for.
    pub intact: bool,
    /// The line, counted from 1, of the first record that does not follow. When nothing but the head differs, the line
    /// of the last record; there is none in an empty ledger.
    pub broken_at: Option<usize>,
}

/// Reads a ledger file: JSON Lines that end at LF and nowhere else, blank ones skipped. With `head`, the last record
/// must be that one, which is how a ledger that was cut, emptied or rewritten at its end is found out.
///
/// # Errors
/// `merkle_verify_failed` or `schema_version_mismatch` for a line that is no record; field `line` says which one.
pub fn check_ledger(text: &[u8], head: Option<RecordHash>) -> Result<Ledger, DomainError> {
    let mut ledger = Ledger { records: Vec::new(), head: None, intact: true, broken_at: None };
    let mut round = 0;
    let mut last_line = None;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let number = index + 1;
        let record = ContributionRecord::parse(line).map_err(|error| error.field("line", number))?;
        let tail = ledger.head.as_ref().map(|hash| (hash, round));
        if ledger.broken_at.is_none() && record.follows(tail).is_err() {
            ledger.broken_at = Some(number);
        }
        let hash = record.hash();
        ledger.records.push(hash);
        ledger.head = Some(hash);
        round = record.round_index;
        last_line = Some(number);
    }
    let same_head = head.is_none_or(|head| ledger.head == Some(head));
    ledger.intact = ledger.broken_at.is_none() && same_head;
    if !same_head {
        ledger.broken_at = ledger.broken_at.or(last_line);
    }
    Ok(ledger)
}
