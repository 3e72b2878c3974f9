//! What a person writes to name something that is stored: a hash, a round of a run, a locator.

use std::fmt;
use std::str::FromStr;

use super::error::{Error, Kind};
use crate::core::digest::ContentHash;
use crate::core::locator::Locator;
use crate::core::run::Name;

/// A parsed reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// 64 hex digits: an artifact or a parameter group; only the server knows which.
    Hash(ContentHash),
    /// `RUN@latest` or `RUN@12`.
    Round {
        /// The run.
        run: Name,
        /// The round whose input is meant; the head when there is none.
        round: Option<u64>,
    },
    /// `artifact://…` or an address of a server.
    Locator {
        /// As it was written.
        text: String,
        /// What it names.
        locator: Locator,
    },
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Ok(hash) = text.parse() {
            return Ok(Self::Hash(hash));
        }
        if text.contains("://") {
            if let Some(hash) = served_artifact(text) {
                return Ok(Self::Hash(hash));
            }
            let locator = Locator::parse(text).map_err(|error| Error::new(Kind::Usage, &error))?;
            return Ok(Self::Locator { text: text.to_owned(), locator });
        }
        let Some((run, round)) = text.rsplit_once('@') else { return Err(wrong()) };
        let run = run.parse().map_err(|_| wrong())?;
        if round == "latest" {
            return Ok(Self::Round { run, round: None });
        }
        let plain = round.bytes().all(|byte| byte.is_ascii_digit());
        let round = round.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        Ok(Self::Round { run, round: Some(round) })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash(hash) => hash.fmt(f),
            Self::Round { run, round: None } => write!(f, "{run}@latest"),
            Self::Round { run, round: Some(round) } => write!(f, "{run}@{round}"),
            Self::Locator { text, .. } => f.write_str(text),
        }
    }
}

/// The artifact that a server's own address names. It is no locator: those name parameter groups.
fn served_artifact(text: &str) -> Option<ContentHash> {
    let (scheme, rest) = text.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    let (before, hash) = path.rsplit_once("v1/artifacts/")?;
    let whole = matches!(scheme, "http" | "https") && (before.is_empty() || before.ends_with('/'));
    hash.parse().ok().filter(|_| whole)
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

    const HASH: &str = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";

    #[test]
    fn references_are_told_apart_and_print_as_they_were_written() {
        let group = format!("http://h/cairn/v1/params/{HASH}");
        for text in [HASH, "run-1@latest", "run.b@12", "artifact://c/run/round-00012/encoder", &group] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        assert!(matches!(HASH.parse(), Ok(Reference::Hash(_))));
        assert!(matches!("r@7".parse(), Ok(Reference::Round { round: Some(7), .. })));
        for text in [
            "",
            "@latest",
            "run",
            "run@",
            "run@-1",
            "run@+1",
            "run@head",
            "-r@1",
            "a/b@1",
            &HASH[1..],
            &HASH.to_uppercase(),
            "r@99999999999999999999",
            "mem://theta",
            "http://h/v1/params/x",
            "artifact://c/run/round-12/encoder",
        ] {
            assert_eq!(text.parse::<Reference>().unwrap_err().kind(), Kind::Usage, "{text}");
        }
    }

    #[test]
    fn the_address_of_an_artifact_is_its_hash() {
        for place in ["http://127.0.0.1:8417", "https://registry.example/cairn"] {
            assert!(matches!(format!("{place}/v1/artifacts/{HASH}").parse(), Ok(Reference::Hash(_))), "{place}");
        }
        for text in [format!("file:///v1/artifacts/{HASH}"), format!("http://h/xv1/artifacts/{HASH}")] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
