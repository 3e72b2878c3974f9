//! The kinds of hash that name things here, each a type of its own so that two kinds are never compared.
//!
//! All are SHA-256 values, written as 64 lowercase hexadecimal digits and parsed in that form only.
//! There is deliberately no `Deref`, no `Default` and no conversion between them.

use std::fmt;
use std::str::FromStr;

use super::sha256::Sha256;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A string that is not 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADigest;

impl fmt::Display for NotADigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash is 64 lowercase hexadecimal digits")
    }
}

impl std::error::Error for NotADigest {}

/// Writes bytes as lowercase hexadecimal.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Reads exactly 64 lowercase hexadecimal digits.
fn parse_hex(text: &str) -> Result<[u8; 32], NotADigest> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(NotADigest);
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotADigest),
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Ok(bytes)
}

macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Wraps the 32 bytes of a finished SHA-256.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The 32 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NotADigest;

            fn from_str(text: &str) -> Result<Self, NotADigest> {
                parse_hex(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&to_hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

digest! {
    /// H1: the canonical hash of a checkpoint, the value that a coordinator commits.
    ContentHash
}
digest! {
    /// H2: the hash of one parameter group with bare names, what `ParamRef.content_hash` is.
    GroupHash
}
digest! {
    /// H4: the hash of a stored file's bytes.
    BlobDigest
}

impl BlobDigest {
    /// The digest of bytes in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes))
    }
}

digest! {
    /// The hash of a resolved configuration: a header carries it, a run manifest holds what it is of.
    ConfigHash
}

digest! {
    /// The full hash of a public probe, version 2.
    ProbeHash
}
digest! {
    /// The hash of one episode's canonical bytes, which never leave their participant.
    EpisodeDigest
}
digest! {
    /// The hash of an episode as a leaf of its data set's Merkle tree.
    LeafDigest
}
impl ProbeHash {
    /// The hash of zeros, which stands for "no probe" in Lensemble's messages.
    pub const NONE: Self = Self([0; 32]);
}

digest! {
    /// The root of a data set's Merkle tree.
    DatasetRoot
}
digest! {
    /// The hash of a ledger record, which the next one names.
    RecordHash
}
digest! {
    /// The hash of bytes that have no kind of their own, such as a summary of a checkpoint's structure.
    Sha256Hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lowercase_hex_of_the_right_length_is_a_digest() {
        let good = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";
        assert_eq!(good.parse::<ContentHash>().unwrap().to_string(), good);
        for bad in [
            "",
            &good[1..],
            &good.to_uppercase(),
            &format!("{good}0"),
            &format!("{good}\n"),
            &"g".repeat(64),
            &format!("sha256:{good}"),
            &"０".repeat(64),
        ] {
            assert_eq!(bad.parse::<ContentHash>(), Err(NotADigest), "{bad:?}");
        }
    }
}
