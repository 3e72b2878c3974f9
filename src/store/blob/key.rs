//! Names of blobs: random, so that nothing a client says ever becomes part of a path.

use std::fmt;

/// 128 random bits, written as 32 lowercase hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey(String);

impl BlobKey {
    /// A key of these bits.
    #[must_use]
    pub fn from_bits(bits: [u8; 16]) -> Self {
        Self(crate::core::digest::to_hex(&bits))
    }

    /// Reads a key as it lies in a row or in a directory.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        digits.then(|| Self(text.to_owned()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
