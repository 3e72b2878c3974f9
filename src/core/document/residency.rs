//! What must never be in a document: tensors spelled as JSON, bulk data, and secrets.
//!
//! A schema says what each of its fields may hold. Where it leaves open what a field holds, these checks look at the
//! shape of what is there. They know what private data looks like, not what it means: names such as `latent_dim` are no
//! sign of it. A refusal tells what kind of thing was found and how much of it, never the thing or the name it had.

use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Fields, Value};

/// Most numbers that may stand together.
const MAX_NUMBERS: usize = 64;

/// Most hexadecimal digits in a row: those of the longest digest.
const MAX_HEX: usize = 128;

/// Most characters of the base64 alphabet in a row.
const MAX_BASE64: usize = 256;

/// Checks a value whose names and contents are free; `path` is what a refusal calls it.
///
/// # Errors
/// `residency_violation`.
pub fn check_free_form(value: &Value, path: &str) -> Result<(), DomainError> {
    match value {
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => Ok(()),
        Value::String(text) => check_string(text, path),
        Value::Array(items) => {
            let count = numbers(items);
            if count > MAX_NUMBERS {
                return Err(too_many_numbers(path, "an array", count));
            }
            items.iter().try_for_each(|item| check_free_form(item, path))
        }
        Value::Object(entries) => {
            if ["dtype", "shape", "data"].iter().all(|name| entries.contains_key(*name)) {
                let count = |name| if let Some(Value::Array(items)) = entries.get(name) { numbers(items) } else { 0 };
                let (rank, count) = (count("shape"), count("data"));
                let what = format!("a tensor spelled as JSON, of rank {rank} with {count} numbers");
                return Err(violation(path, &what).field("count", count));
            }
            entries.iter().try_for_each(|(name, value)| {
                check_string(name, path)?;
                check_free_form(value, path)
            })
        }
    }
}

/// Checks a single free text, such as the details of a refusal or an abort.
///
/// # Errors
/// `residency_violation`.
pub fn check_text(text: &str) -> Result<(), DomainError> {
    check_string(text, "the text")
}

/// A field of at most `most` bytes that says something in words of its writer's own: it must hold no secret.
///
/// # Errors
/// When it is missing or something else; `residency_violation`.
pub fn free_text(fields: &mut Fields, name: &str, most: usize) -> Result<String, DomainError> {
    let text = fields.name(name, most)?;
    check_text(&text)?;
    Ok(text)
}

fn violation(path: &str, what: &str) -> DomainError {
    DomainError::new(ErrorCode::ResidencyViolation, format!("{path} holds {what}"))
        .field("field", path)
        .invariant("INV-RESIDENCY")
        .remedy("Take tensors, bulk data and credentials out of the document; name data by its hash.")
}

fn too_many_numbers(path: &str, where_to: &str, count: usize) -> DomainError {
    violation(path, &format!("{where_to} of {count} numbers; at most {MAX_NUMBERS} may stand together"))
        .field("count", count)
        .field("limit", MAX_NUMBERS)
}

/// The numbers in an array and in the arrays within it, as a tensor's elements are counted.
fn numbers(items: &[Value]) -> usize {
    let count = |item: &Value| match item {
        Value::Integer(_) | Value::Float(_) => 1,
        Value::Array(items) => numbers(items),
        _ => 0,
    };
    items.iter().map(count).sum()
}

fn check_string(text: &str, path: &str) -> Result<(), DomainError> {
    if let Some(what) = credential(text) {
        return Err(violation(path, &format!("a text that looks like {what}")));
    }
    let hex = longest_run(text, |byte| byte.is_ascii_hexdigit());
    if hex > MAX_HEX {
        return Err(violation(path, &format!("{hex} hexadecimal digits in a row")).field("count", hex));
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let base64 = longest_run(text, is_base64);
    if base64 > MAX_BASE64 {
        return Err(violation(path, &format!("{base64} characters of base64 in a row")).field("count", base64));
    }
    let between = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '[' | ']' | '(' | ')');
    let count = text.split(between).filter(|word| word.parse::<f64>().is_ok()).count();
    if count > MAX_NUMBERS { Err(too_many_numbers(path, "a text", count)) } else { Ok(()) }
}

/// The most characters in a row that belong. Line ends do not break a row: encoders wrap their lines.
fn longest_run(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        run = if belongs(byte) { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// What kind of credential stands in a text.
fn credential(text: &str) -> Option<&'static str> {
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    let upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    if text.contains("PRIVATE KEY") {
        return Some("a private key");
    }
    // Words end in sk: a task-specific setting is no key.
    let is_key = |at: usize| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    if marked(text, "sk-", 8, alphanumeric).any(is_key)
        || marked(text, "hf_", 8, alphanumeric).next().is_some()
        || marked(text, "AKIA", 16, upper).next().is_some()
    {
        return Some("an access key");
    }
    is_assigned(text).then_some("a password, secret or token with its value")
}

/// Where `mark` stands and at least `least` characters that belong follow it.
fn marked(text: &str, mark: &str, least: usize, belongs: impl Fn(u8) -> bool) -> impl Iterator<Item = usize> {
    text.match_indices(mark).map(|(at, _)| at).filter(move |at| {
        let after = text.as_bytes().get(at + mark.len()..at + mark.len() + least);
        after.is_some_and(|after| after.iter().all(|byte| belongs(*byte)))
    })
}

/// Whether one of the words for a secret has a value: `password=`, `"token": `, `SECRET :`.
fn is_assigned(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["password", "secret", "token"].iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let after = text[at + word.len()..].trim_start_matches([' ', '\t', '"', '\'']);
            after.starts_with(['=', ':'])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), DomainError> {
        check_free_form(&Value::parse(text.as_bytes()).unwrap(), "config")
    }

    /// What is told of a refusal.
    fn refusal(text: &str) -> String {
        let error = check(text).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ResidencyViolation);
        assert_eq!(error.fields()["field"], "config");
        format!("{error} {:?}", error.fields())
    }

    #[test]
    fn tensors_and_bulk_data_are_refused() {
        let row = format!("[{}]", vec!["0.5"; 13].join(","));
        for (text, told) in [
            (format!("[{}]", vec!["1"; 65].join(",")), "an array of 65 numbers"),
            (format!("[[{row},{row}],[[{row}],{row},{row}]]"), "an array of 65 numbers"),
            (r#"{"a":[{"dtype":"f32","shape":[2,1],"data":[[1],[2]]}]}"#.into(), "of rank 2 with 2 numbers"),
            (r#"{"dtype":"f32","shape":[1],"data":"AAAAAA=="}"#.into(), "of rank 1 with 0 numbers"),
            (format!(r#"{{"a":"{}"}}"#, "f0".repeat(65)), "130 hexadecimal digits"),
            (format!(r#"{{"a":"data:,{}="}}"#, "Zm9v".repeat(64)), "257 characters of base64"),
            (format!(r#"{{"a":"{}"}}"#, "Zm9vYmFyZm9v\\n".repeat(22)), "264 characters of base64"),
            (format!(r#"{{"{}":1}}"#, "Zm9vYmFyZm9v".repeat(22)), "264 characters of base64"),
            (format!(r#"["x=1e-3{}"]"#, ", 0.25".repeat(65)), "a text of 65 numbers"),
        ] {
            let message = refusal(&text);
            assert!(message.contains(told), "{message}");
        }
    }

    #[test]
    fn what_a_configuration_holds_is_no_bulk_data() {
        let numbers = vec!["1.5"; 64].join(",");
        for text in [
            format!("[{numbers}]"),
            format!(r#"{{"a":[{numbers}],"b":[{numbers}]}}"#),
            r#"{"latent_dim":1024,"embedding":{"dtype":"fp32","shape":[2]},"num_tokens":256}"#.into(),
            format!(r#"{{"digest":"{}"}}"#, "0f".repeat(64)),
            format!(r#"{{"prose":"{}"}}"#, "some more words ".repeat(200)),
            format!(r#"{{"path":"{}"}}"#, "/data/set.v1".repeat(40)),
            r#"["task-reachability", "risk-assessment", "sk-learn", "hf_hub", "AKIA", "secrets", "tokens: 7"]"#.into(),
        ] {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
    }

    #[test]
    fn credentials_are_refused_and_never_repeated() {
        for text in [
            "sk-abcdefgh1",
            "key is:sk-ABCD1234",
            "sk-short sk-longenough",
            "hf_abcdefgh",
            "AKIAABCDEFGHIJKLMNOP",
            "-----BEGIN RSA PRIVATE KEY-----",
            "password=x",
            "wandb_token: x",
            "SECRET = x",
            "the é secret':x",
        ] {
            let error = check_text(text).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ResidencyViolation, "{text}");
            assert_eq!(error.violated(), Some("INV-RESIDENCY"));
            for text in [format!(r#"{{"a":["{text}"]}}"#), format!(r#"{{"{text}":1}}"#)] {
                let message = refusal(&text);
                assert!(!message.contains("abcdefgh") && !message.contains("ABCD"), "{message}");
            }
        }
        for text in ["sk-abcdefg", "hf_abcdefg", "AKIAabcdefghijklmnop", "AKIA123456789012345", "sk-é", "token"] {
            assert_eq!(check_text(text), Ok(()), "{text}");
        }
    }
}
