//! A JSON document as a tree, with every digit of its integers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::strict::{MAX_DEPTH, depth, explain};

/// Most digits of an integer; Python refuses to read more.
const MAX_DIGITS: usize = 4300;

/// One JSON value.
///
/// `1` and `1.0` are different values: the first is an integer of any size, the second a double.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without a point or an exponent, as decimal digits with a sign where it is negative; `-0` is `0`.
    Integer(Box<str>),
    /// Any other number, correctly rounded, and finite.
    Float(f64),
    /// Text: Unicode without lone surrogates.
    String(String),
    /// `[…]`
    Array(Vec<Value>),
    /// `{…}`; no name stands in it twice. Sorted by code point.
    Object(BTreeMap<String, Value>),
}

/// Why a text is not the JSON that is read here; repeats nothing of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson(pub String);

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotJson {}

impl Value {
    /// Reads a whole text, which must be one JSON value in UTF-8, nested at most 64 levels deep.
    ///
    /// # Errors
    /// When it is not JSON (NaN and infinities included), repeats a name within one object, holds a lone surrogate, an
    /// integer of more than 4,300 digits or a number beyond the range of a double.
    pub fn parse(text: &[u8]) -> Result<Self, NotJson> {
        if depth(text) > MAX_DEPTH {
            return Err(NotJson(format!("it is nested more than {MAX_DEPTH} levels deep")));
        }
        let raw: &RawValue = serde_json::from_slice(text).map_err(|error| NotJson(explain(&error)))?;
        Self::read(raw.get())
    }

    /// Each level is read on its own, so that the digits of a number are still at hand; the depth is bounded.
    fn read(text: &str) -> Result<Self, NotJson> {
        let not = |error: serde_json::Error| NotJson(explain(&error));
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(text).map_err(not)?;
                Self::Object(
                    entries
                        .into_iter()
                        .map(|(name, raw)| Ok((name, Self::read(raw.get())?)))
                        .collect::<Result<_, NotJson>>()?,
                )
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(not)?;
                Self::Array(items.into_iter().map(|raw| Self::read(raw.get())).collect::<Result<_, _>>()?)
            }
            Some(b'"') => Self::String(serde_json::from_str(text).map_err(not)?),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') => Self::Null,
            _ => number(text)?,
        })
    }

    /// What kind of value this is, for a person.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number with a fraction or exponent",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Follows names into nested objects.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| match value {
            Self::Object(entries) => entries.get(*name),
            _ => None,
        })
    }
}

/// `text` is a valid JSON number.
fn number(text: &str) -> Result<Value, NotJson> {
    if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        let float: f64 = text.parse().map_err(|_| NotJson("a number cannot be read".to_owned()))?;
        if float.is_infinite() {
            return Err(NotJson("a number is beyond the range of a double".to_owned()));
        }
        return Ok(Value::Float(float));
    }
    if text.trim_start_matches('-').len() > MAX_DIGITS {
        return Err(NotJson(format!("an integer has more than {MAX_DIGITS} digits")));
    }
    Ok(Value::Integer(if text == "-0" { "0" } else { text }.into()))
}

/// The entries of an object whose names are all different.
struct Entries<'a>(BTreeMap<String, &'a RawValue>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((name, raw)) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    if entries.insert(name.into_owned(), raw).is_some() {
                        return Err(A::Error::custom("a name stands twice in one object"));
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_what_they_are() {
        let read = |text: &str| Value::parse(text.as_bytes()).unwrap();
        assert_eq!(read("-0"), Value::Integer("0".into()));
        assert_eq!(read("18446744073709551692"), Value::Integer("18446744073709551692".into()));
        assert_eq!(read("1.0"), Value::Float(1.0));
        assert_eq!(read("1e2"), Value::Float(100.0));
        assert_ne!(read("1"), read("1.0"));
    }

    #[test]
    fn what_is_not_strict_json_is_refused_without_being_repeated() {
        let bomb = format!("{}{}", "[".repeat(65), "]".repeat(65));
        let digits = "9".repeat(4301);
        for text in [
            "",
            "{",
            "{} {}",
            "NaN",
            "[Infinity]",
            "1e400",
            "-1e400",
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#""\ud800""#,
            "\u{feff}1",
            "01",
            "1.",
            "nul",
            &bomb,
            &digits,
            r#"[{"secret":1,"secret":2}]"#,
        ] {
            let NotJson(why) = Value::parse(text.as_bytes()).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
        assert!(Value::parse(b"\"\xff\"").is_err());
        assert!(Value::parse(format!("{}{}", "[".repeat(64), "]".repeat(64)).as_bytes()).is_ok());
        assert!(Value::parse("9".repeat(4300).as_bytes()).is_ok());
    }
}
