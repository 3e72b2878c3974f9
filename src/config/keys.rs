//! What each key may be, and the words for a value that is something else.

use std::fmt;
use std::ops::RangeInclusive;

use figment::Figment;
use figment::error::Kind;

use crate::service::DATABASES;

/// What a value may be.
pub(super) enum Expected {
    /// A number in these bounds.
    Number(RangeInclusive<u64>),
    /// Something else, in words.
    Words(&'static str),
}

use Expected::{Number, Words};

const DAY: u64 = 24 * 3600;
const MIB: u64 = 1 << 20;
const PIB: u64 = 1 << 50;

/// Every key. Upper bounds are far above what makes sense; they keep sums of sizes and of times inside 64 bits.
pub(super) const KEYS: &[(&str, Expected)] = &[
    ("server.listen", Words("an address and a port, such as 127.0.0.1:8417")),
    ("server.allow_unauthenticated", Words("true or false")),
    ("server.keep_alive_seconds", Number(1..=DAY)),
    ("server.write_idle_seconds", Number(1..=DAY)),
    ("server.shutdown_grace_seconds", Number(0..=DAY)),
    ("storage.data_dir", Words("the path of a directory")),
    ("storage.database", Words(DATABASES)),
    ("upload.session_hours", Number(1..=365 * 24)),
    ("upload.body_idle_seconds", Number(1..=DAY)),
    ("upload.checkpoint_bytes", Number(MIB..=PIB)),
    // The database keeps a header in one cell.
    ("limits.header_bytes", Number(1..=256 * MIB)),
    // The limit of the format itself.
    ("limits.container_header_bytes", Number(2..=100_000_000)),
    ("limits.tensors", Number(1..=1_000_000)),
    ("limits.file_bytes", Number(1..=PIB)),
    ("limits.artifact_bytes", Number(1..=PIB)),
    ("log.format", Words("text or json")),
    ("log.filter", Words("what is logged, such as info or info,cairn=debug")),
];

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number(range) => write!(f, "a whole number from {} to {}", range.start(), range.end()),
            Words(words) => f.write_str(words),
        }
    }
}

/// Why a configuration is not usable: the key, its value and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read at all.
    #[error("configuration: {0}")]
    Unreadable(String),
    /// A key that does not exist.
    #[error("configuration: {key} is not a key{place}; expected one of {expected}")]
    Unknown {
        /// The key with its section.
        key: String,
        /// The keys that exist there.
        expected: String,
        /// Where it was found.
        place: String,
    },
    /// A value that is not what it may be.
    #[error("configuration: {key} is {value}{place}; expected {expected}")]
    Value {
        /// The key with its section.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
        /// Where it was found, when that is known.
        place: String,
    },
}

impl ConfigError {
    /// A value that is not what it may be.
    pub(crate) fn value(key: &str, value: String, expected: String) -> Self {
        Self::Value { key: key.to_owned(), value, expected, place: String::new() }
    }

    /// Puts figment's error, of which the first is told, into our words.
    pub(super) fn unreadable(figment: &Figment, error: figment::Error) -> Self {
        let Some(error) = error.into_iter().next() else { return Self::Unreadable("it cannot be read".to_owned()) };
        let place = error.metadata.as_ref().map_or_else(String::new, |metadata| match &metadata.source {
            Some(source) => format!(" in {source}"),
            None => " in the environment".to_owned(),
        });
        let key = error.path.join(".");
        match error.kind {
            _ if error.path.is_empty() => Self::Unreadable(error.to_string()),
            Kind::UnknownField(_, known) => Self::Unknown { key, expected: known.join(", "), place },
            kind => {
                let value = figment.find_value(&key).ok().and_then(|value| serde_json::to_string(&value).ok());
                let expected = KEYS.iter().find(|(known, _)| *known == key).map(|(_, expected)| expected.to_string());
                Self::Value {
                    value: value.unwrap_or_else(|| "something else".to_owned()),
                    expected: expected.unwrap_or_else(|| kind.to_string()),
                    key,
                    place,
                }
            }
        }
    }
}
