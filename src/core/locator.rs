//! Locators: hints where a parameter group is. The hash beside a locator decides; the locator only helps to find it.

use super::checkpoint::SHARED_GROUPS;
use super::digest::{ContentHash, GroupHash};
use super::error::{DomainError, ErrorCode};
use super::run::{LAST_ROUND, Name};

/// The longest locator.
const LONGEST: usize = 1024;

/// What a locator names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator {
    /// `artifact://{consortium}/{run}/round-00012/encoder`
    Round {
        /// The consortium and the run; `None` in the old form without them, which means the run at hand.
        scope: Option<(Name, Name)>,
        /// The round.
        round: u64,
        /// The group.
        group: &'static str,
    },
    /// `artifact://sha256/{H2}`, or a server's `/v1/params/{H2}`.
    Hash(GroupHash),
    /// A server's `/v1/artifacts/{H1}/groups/{group}.safetensors`.
    Artifact {
        /// H1.
        content_hash: ContentHash,
        /// The group.
        group: &'static str,
    },
}

/// The locator of a group of a round.
#[must_use]
pub fn mint(consortium: &Name, run: &Name, round: u64, group: &str) -> String {
    format!("artifact://{consortium}/{run}/round-{round:05}/{group}")
}

impl Locator {
    /// Reads a locator.
    ///
    /// # Errors
    /// `config_invalid` when it has none of the known forms.
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        let wrong = || {
            DomainError::new(ErrorCode::ConfigInvalid, "the locator has none of the known forms")
                .field("key", "locator")
                .remedy("Write artifact://CONSORTIUM/RUN/round-00012/encoder, artifact://round-00012/encoder, or a URL of this server.")
        };
        if text.len() > LONGEST || text.contains(['?', '#', '@', '%']) {
            return Err(wrong());
        }
        let found = match text.strip_prefix("artifact://") {
            Some(path) => artifact(path),
            None => served(text),
        };
        found.ok_or_else(wrong)
    }
}

fn artifact(path: &str) -> Option<Locator> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["sha256", hash] => Some(Locator::Hash(hash.parse().ok()?)),
        [round, group] => Some(Locator::Round { scope: None, round: index(round)?, group: shared(group)? }),
        [consortium, run, round, group] => Some(Locator::Round {
            scope: Some((consortium.parse().ok()?, run.parse().ok()?)),
            round: index(round)?,
            group: shared(group)?,
        }),
        _ => None,
    }
}

fn served(text: &str) -> Option<Locator> {
    let path = match text.split_once("://") {
        Some(("http" | "https", rest)) => rest.split_once('/')?.1,
        Some(_) => return None,
        None => text.strip_prefix('/')?,
    };
    // A server may be published below a path of its own.
    let at = path.find("v1/").filter(|at| *at == 0 || path[..*at].ends_with('/'))?;
    let parts: Vec<&str> = path[at..].split('/').collect();
    match parts[..] {
        ["v1", "params", hash] => Some(Locator::Hash(hash.parse().ok()?)),
        ["v1", "artifacts", hash, "groups", file] => Some(Locator::Artifact {
            content_hash: hash.parse().ok()?,
            group: shared(file.strip_suffix(".safetensors")?)?,
        }),
        _ => None,
    }
}

fn index(part: &str) -> Option<u64> {
    let digits = part.strip_prefix("round-")?;
    let plain = (5..=10).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let index = digits.parse().ok().filter(|index| plain && *index <= LAST_ROUND)?;
    // One spelling for each round: five digits, more only where they are needed.
    (digits.len() == 5 || !digits.starts_with('0')).then_some(index)
}

fn shared(group: &str) -> Option<&'static str> {
    SHARED_GROUPS.into_iter().find(|known| *known == group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";

    #[test]
    fn minted_locators_are_read_again() {
        let (consortium, run): (Name, Name) = ("acme".parse().unwrap(), "r.1".parse().unwrap());
        for round in [0, 12, 99_999, 100_000, LAST_ROUND] {
            let text = mint(&consortium, &run, round, "encoder");
            let scope = Some((consortium.clone(), run.clone()));
            assert_eq!(Locator::parse(&text).unwrap(), Locator::Round { scope, round, group: "encoder" });
        }
    }

    #[test]
    fn every_known_form_is_read_and_no_other() {
        assert_eq!(
            Locator::parse("artifact://round-00012/predictor").unwrap(),
            Locator::Round { scope: None, round: 12, group: "predictor" }
        );
        for text in [
            format!("artifact://sha256/{HASH}"),
            format!("/v1/params/{HASH}"),
            format!("https://registry.example/cairn/v1/params/{HASH}"),
        ] {
            assert_eq!(Locator::parse(&text).unwrap(), Locator::Hash(HASH.parse().unwrap()), "{text}");
        }
        let text = format!("http://127.0.0.1:8417/v1/artifacts/{HASH}/groups/encoder.safetensors");
        assert!(matches!(Locator::parse(&text).unwrap(), Locator::Artifact { group: "encoder", .. }));
        for text in [
            "",
            "artifact://",
            "artifact://round-12/encoder",
            "artifact://round-00012/head",
            "artifact://round-000012/encoder",
            "artifact://a/../round-00012/encoder",
            "artifact://user@a/r/round-00012/encoder",
            "artifact://a/r/round-99999999999/encoder",
            "mem://theta",
            "hf://models/x@y/z",
            "http://h/v2/params/x",
            "file:///etc/passwd",
        ] {
            assert_eq!(Locator::parse(text).unwrap_err().code(), ErrorCode::ConfigInvalid, "{text}");
        }
    }
}
