//! What a person writes to name something that is stored: a hash, a round of a run, a locator.

use std::fmt;
use std::str::FromStr;

use super::error::Error;
use crate::core::digest::{ContentHash, GroupHash};

/// The longest name of a run.
const LONGEST_RUN: usize = 128;

/// A parsed reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// 64 hex digits: an artifact or a parameter group; only the server knows which.
    Hash(ContentHash),
    /// `RUN@latest` or `RUN@12`.
    Round {
        /// The run's name.
        run: String,
        /// The round whose input is meant; the head when there is none.
        round: Option<u64>,
    },
    /// `artifact://…` or another address.
    Locator(String),
}

impl Reference {
    /// The hash, where the reference is one.
    ///
    /// # Errors
    /// A usage error for everything that needs runs.
    pub(super) fn hash(&self) -> Result<ContentHash, Error> {
        match self {
            Self::Hash(hash) => Ok(*hash),
            Self::Round { .. } | Self::Locator(_) => Err(Error::usage(
                format!("{self}: runs are not served by this version"),
                "Name the content hash of the checkpoint, or the hash of the parameter group.",
            )),
        }
    }
}

/// The same 64 digits, taken as the name of a parameter group.
pub(super) const fn as_group(hash: ContentHash) -> GroupHash {
    GroupHash::from_bytes(*hash.as_bytes())
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Ok(hash) = text.parse() {
            return Ok(Self::Hash(hash));
        }
        if text.contains("://") {
            return Ok(Self::Locator(text.to_owned()));
        }
        if let Some((run, round)) = text.rsplit_once('@')
            && is_run_name(run)
        {
            if round == "latest" {
                return Ok(Self::Round { run: run.to_owned(), round: None });
            }
            if !round.is_empty() && round.bytes().all(|byte| byte.is_ascii_digit()) {
                let round = round.parse().ok();
                return round.map(|round| Self::Round { run: run.to_owned(), round: Some(round) }).ok_or_else(wrong);
            }
        }
        Err(wrong())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash(hash) => hash.fmt(f),
            Self::Round { run, round: None } => write!(f, "{run}@latest"),
            Self::Round { run, round: Some(round) } => write!(f, "{run}@{round}"),
            Self::Locator(text) => f.write_str(text),
        }
    }
}

fn is_run_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST_RUN).contains(&text.len()) && !text.starts_with(['.', '-']) && text.bytes().all(plain)
}

fn wrong() -> Error {
    Error::usage(
        "this names nothing that can be stored",
        "Write a content hash or group hash (64 lowercase hex digits), RUN@latest, RUN@12 or artifact://…",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_apart_and_print_as_they_were_written() {
        let hash = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";
        for text in [hash, "run-1@latest", "run.b@12", "artifact://c/run/round-00012/encoder", "http://h/v1/params/x"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        assert!(matches!(hash.parse(), Ok(Reference::Hash(_))));
        assert!(matches!("r@7".parse(), Ok(Reference::Round { round: Some(7), .. })));
        assert!("r@7".parse::<Reference>().unwrap().hash().is_err());
        for text in
            ["", "@latest", "run", "run@", "run@-1", "run@head", "-r@1", "a/b@1", &hash[1..], "r@99999999999999999999"]
        {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
        assert!(hash.to_uppercase().parse::<Reference>().is_err());
    }
}
