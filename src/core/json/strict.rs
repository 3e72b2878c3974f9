//! What serde leaves open in JSON is closed here.
//!
//! `serde_json` already refuses NaN, lone surrogates, trailing text, a byte order mark and deep nesting, and derived
//! structs refuse unknown and repeated fields. Left to close: structs written as arrays, and error texts that quote
//! the document.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::core::error::{DomainError, ErrorCode};

/// A struct that must be written as a JSON object; serde's derive would take an array of its fields as well.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// Says what is wrong with a JSON text without repeating any of its values.
///
/// serde puts an offending text in quotes. The name of an unknown field stands in backticks and may be anything; it
/// stays when it looks like a name. Numbers, and the names that a struct knows, say nothing of the document.
#[must_use]
pub fn explain(error: &serde_json::Error) -> String {
    const UNKNOWN: &str = "unknown field `";
    let text = error.to_string();
    let text = match (text.find('"'), text.rfind('"')) {
        (Some(first), Some(last)) if first < last => format!("{}…{}", &text[..first], &text[last + 1..]),
        _ => text,
    };
    let plain = |name: &str| name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // The last of these commas is serde's own: it is followed by names that the struct knows.
    match text.strip_prefix(UNKNOWN).and_then(|rest| rest.rsplit_once("`, expected ")) {
        Some((name, _)) if plain(name) => text,
        Some((_, known)) => format!("unknown field …, expected {known}"),
        None => text,
    }
}

/// Reads the integer `schema_version` of a document before anything else in it is looked at.
///
/// # Errors
/// `artifact_invalid` when the text is not one JSON object; `schema_version_mismatch` when the version is missing,
/// repeated, not an integer or outside 1 to `newest`.
pub fn schema_version(text: &[u8], what: &str, newest: u32) -> Result<u32, DomainError> {
    struct Gate(Vec<Box<RawValue>>);
    impl<'de> Deserialize<'de> for Gate {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct GateVisitor;
            impl<'de> Visitor<'de> for GateVisitor {
                type Value = Gate;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Gate, A::Error> {
                    let mut versions = Vec::new();
                    while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                        if key == "schema_version" {
                            versions.push(map.next_value()?);
                        } else {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                    Ok(Gate(versions))
                }
            }
            deserializer.deserialize_map(GateVisitor)
        }
    }

    if depth(text) > MAX_DEPTH {
        return Err(DomainError::invalid(format!("{what} is nested more than {MAX_DEPTH} levels deep")));
    }
    let Gate(versions) = serde_json::from_slice(text)
        .map_err(|error| DomainError::invalid(format!("{what} is not a JSON object: {}", explain(&error))))?;
    let mismatch = |message: String, found: serde_json::Value| {
        DomainError::new(ErrorCode::SchemaVersionMismatch, message)
            .field("field", "schema_version")
            .field("file_schema_version", found)
            .field("reader_max_version", newest)
    };
    let [version] = versions.as_slice() else {
        return Err(if versions.is_empty() {
            mismatch(format!("{what} has no schema_version"), serde_json::Value::Null)
        } else {
            DomainError::invalid(format!("{what} has schema_version more than once"))
        });
    };
    let digits = version.get();
    let is_integer = digits.strip_prefix('-').unwrap_or(digits).bytes().all(|byte| byte.is_ascii_digit());
    if !is_integer {
        let found = serde_json::Value::Null;
        return Err(mismatch(format!("the schema_version of {what} is not an integer"), found));
    }
    match digits.parse::<u32>() {
        Ok(number) if (1..=newest).contains(&number) => Ok(number),
        number => Err(mismatch(
            format!("{what} has a schema_version that this reader does not know; it reads 1 to {newest}"),
            number.map_or_else(|_| digits.chars().take(24).collect::<String>().into(), Into::into),
        )),
    }
}

/// Deepest nesting of a document that is read.
pub(super) const MAX_DEPTH: usize = 64;

/// The deepest nesting of brackets outside strings; right for valid JSON, and harmless for any other text.
pub(super) fn depth(text: &[u8]) -> usize {
    let (mut deepest, mut open, mut in_string, mut escaped) = (0, 0usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(text: &str) -> Result<u32, ErrorCode> {
        schema_version(text.as_bytes(), "header.json", 2).map_err(|error| error.code())
    }

    #[test]
    fn the_version_gate_comes_before_everything_else() {
        assert_eq!(gate(r#"{"schema_version": 2, "x": [1, {}]}"#), Ok(2));
        for text in ["3", "0", "-1", "\"2\"", "2.0", "2e0", "true", "null", "[2]", "1000000000000000000000000000000"] {
            let text = format!(r#"{{"content_hash": 7, "schema_version": {text}}}"#);
            assert_eq!(gate(&text), Err(ErrorCode::SchemaVersionMismatch), "{text}");
        }
        assert_eq!(gate("{}"), Err(ErrorCode::SchemaVersionMismatch));
        for text in
            ["", "[]", "null", "{} {}", "\u{feff}{}", r#"{"schema_version":1,"schema_version":1}"#, r#"{"a":NaN}"#]
        {
            assert_eq!(gate(text), Err(ErrorCode::ArtifactInvalid), "{text}");
        }
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(20_000), "]".repeat(20_000));
        assert_eq!(gate(&deep), Err(ErrorCode::ArtifactInvalid));
    }

    #[test]
    fn explanations_do_not_repeat_values() {
        let error = serde_json::from_str::<u32>(r#""the secret \" word""#).unwrap_err();
        assert!(!explain(&error).contains("secret"));
    }

    #[test]
    fn explanations_repeat_unknown_names_only_when_they_look_like_names() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Known {
            #[expect(dead_code, reason = "only its name matters")]
            known: u32,
        }
        let refused = |text: &str| explain(&serde_json::from_str::<Known>(text).unwrap_err());
        assert!(refused(r#"{"knwon":1}"#).starts_with("unknown field `knwon`, expected `known`"));
        for name in
            ["a secret", "`, secret", "x`secret`, expected `", r#"\"secret"#, &"s3cret".repeat(10), "secr\u{e9}t"]
        {
            let told = refused(&format!(r#"{{"{name}":1}}"#));
            assert!(told.starts_with("unknown field …, expected `known`"), "{told}");
        }
    }
}
