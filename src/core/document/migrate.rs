//! From an older schema version to the newest, one step at a time, for reading only: stored bytes never change.

use super::kind::{Document, Kind};
use crate::core::error::DomainError;
use crate::core::json::{Dialect, Value};

/// A step from version n to n + 1 of a kind.
type Step = fn(&mut Value);

/// The steps of a kind, from its oldest version on.
const fn steps(kind: Kind) -> &'static [Step] {
    match kind {
        // Version 2 of the control messages changed the Update only, which is never kept here.
        Kind::RoundOpen | Kind::RoundClose => &[same_fields],
        _ => &[],
    }
}

/// A step that changes nothing but the number.
const fn same_fields(_: &mut Value) {}

/// A document in the newest version of its kind: the bytes themselves when they are in it already, else canonical JSON.
///
/// # Errors
/// When the bytes are not a document of this kind.
pub fn latest(kind: Kind, text: &[u8]) -> Result<Vec<u8>, DomainError> {
    let (_, version) = Document::decode_versioned(kind, text)?;
    if version == kind.newest() {
        return Ok(text.to_vec());
    }
    let mut value = Value::parse(text).map_err(|why| DomainError::new(kind.code(), why.to_string()))?;
    for (from, step) in (kind.oldest()..).zip(steps(kind)).skip_while(|(from, _)| *from < version) {
        step(&mut value);
        if let Value::Object(fields) = &mut value {
            fields.insert("schema_version".to_owned(), Value::Integer((from + 1).to_string().into()));
        }
    }
    Ok(value.canonical(Dialect::Ascii))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_message_is_shown_in_the_newest_version_and_a_newest_one_as_it_is() {
        let hash = "a".repeat(64);
        let old =
            format!(r#"{{"kind":"round_close","schema_version":1,"round_index":3,"global_model_hash":"{hash}"}}"#);
        let new = latest(Kind::RoundClose, old.as_bytes()).unwrap();
        assert_eq!(Document::decode_versioned(Kind::RoundClose, &new).unwrap().1, 2);
        assert_eq!(latest(Kind::RoundClose, &new).unwrap(), new);
    }

    #[test]
    fn every_kind_has_a_step_for_each_version_that_a_reader_may_meet() {
        for kind in Kind::ALL {
            let versions = usize::try_from(kind.newest() - kind.oldest()).unwrap();
            assert_eq!(steps(*kind).len(), versions, "{}", kind.name());
        }
    }
}
