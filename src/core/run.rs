//! A run: a named, linear history of rounds with pins that never change.

use std::fmt;
use std::str::FromStr;

use super::digest::{BlobDigest, ConfigHash, ContentHash, GroupHash, ProbeHash, Sha256Hash};
use super::document::residency::free_text;
use super::error::{DomainError, ErrorCode};
use super::json::{Fields, Value};

/// Most participants of one run.
const MAX_PARTICIPANTS: usize = 4096;

/// The last round there can be.
pub const LAST_ROUND: u64 = (1 << 31) - 1;

/// A name that can stand in a path: 1 to 128 of `A-Z a-z 0-9 . _ -`, not beginning with `.` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// A text that is not such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAName;

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name has 1 to 128 characters of A-Z a-z 0-9 . _ - and does not begin with . or -")
    }
}

impl std::error::Error for NotAName {}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let good = (1..=128).contains(&text.len()) && text.bytes().all(legal) && !text.starts_with(['.', '-']);
        if good { Ok(Self(text.into())) } else { Err(NotAName) }
    }
}

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text can name a participant: 1 to 128 characters of any script, no control character and no separator of
/// lines, which would break a ledger into other lines than it has.
#[must_use]
pub fn is_participant(text: &str) -> bool {
    let bad = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    !text.is_empty() && text.chars().count() <= 128 && !text.chars().any(bad)
}

/// Who may read a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Its members.
    Members,
    /// Its members; others what has been released.
    Released,
    /// Everybody.
    Public,
}

impl Visibility {
    /// As it is spelled on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Released => "released",
            Self::Public => "public",
        }
    }
}

/// Where the encoder of round 0 comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmStart {
    /// Name of the release.
    pub release: String,
    /// H2 of the encoder that every participant begins with.
    pub encoder_group_hash: GroupHash,
    /// SHA-256 of the file it was published as.
    pub file_hash: Option<BlobDigest>,
    /// H1 of the checkpoint it was taken from.
    pub source_checkpoint: Option<ContentHash>,
}

/// What a run is bound to from its registration on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The run's name, unique in a registry.
    pub run: Name,
    /// The consortium that trains.
    pub consortium: Name,
    /// The contract version of every checkpoint and document.
    pub wmcp_version: String,
    /// Full hash of the public probe; `None` when the run has none.
    pub probe_hash: Option<ProbeHash>,
    /// Version of the probe.
    pub probe_version: Option<u64>,
    /// Hash of the coordinator's configuration.
    pub config_hash: Option<ConfigHash>,
    /// What round 0 must begin with.
    pub warm_start: Option<WarmStart>,
    /// Who may contribute, sorted; empty means anybody with a commitment.
    pub participants: Vec<String>,
    /// Fewest participants of a round.
    pub min_participants: Option<u64>,
    /// Who may read.
    pub visibility: Visibility,
}

impl Pins {
    /// Reads the body of a registration.
    ///
    /// # Errors
    /// `config_invalid` with the field's name.
    pub fn parse(text: &[u8]) -> Result<Self, DomainError> {
        let code = ErrorCode::ConfigInvalid;
        let value = Value::parse(text)
            .map_err(|why| DomainError::new(code, format!("the registration is not valid: {why}")))?;
        let mut fields = Fields::of(value, "run", code)?;
        let name = |fields: &mut Fields, field: &str| {
            let text = fields.string(field)?;
            text.parse::<Name>().map_err(|not| fields.refuse(field, &format!("is no name: {not}")))
        };
        let pins = Self {
            run: name(&mut fields, "run")?,
            consortium: name(&mut fields, "consortium")?,
            wmcp_version: {
                let version = fields.name("wmcp_version", 64)?;
                if !version.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(fields.refuse("wmcp_version", "must be printable ASCII without blanks"));
                }
                version
            },
            probe_hash: fields.optional_digest("probe_hash")?.filter(|hash| *hash != ProbeHash::NONE),
            probe_version: if fields.has("probe_version") { Some(fields.count("probe_version")?) } else { None },
            config_hash: fields.optional_digest("config_hash")?,
            warm_start: WarmStart::read(&mut fields)?,
            participants: participants(&mut fields)?,
            min_participants: if fields.has("min_participants") {
                Some(fields.count("min_participants")?)
            } else {
                None
            },
            visibility: match fields.optional("visibility") {
                None => Visibility::Members,
                Some(Value::String(text)) => [Visibility::Members, Visibility::Released, Visibility::Public]
                    .into_iter()
                    .find(|visibility| visibility.as_str() == text)
                    .ok_or_else(|| fields.refuse("visibility", "is none of members, released, public"))?,
                Some(_) => return Err(fields.refuse("visibility", "must be a string")),
            },
        };
        for absent in ["probe_version", "min_participants"] {
            fields.optional(absent);
        }
        let declared = pins.participants.len() as u64;
        if declared > 0 && pins.min_participants.is_some_and(|least| least > declared) {
            return Err(fields.refuse("min_participants", "is above the number of participants"));
        }
        fields.done()?;
        Ok(pins)
    }

    /// The names of the pins that differ from another registration's, besides the run's name.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut compare = |name, same: bool| {
            if !same {
                names.push(name);
            }
        };
        compare("consortium", self.consortium == other.consortium);
        compare("wmcp_version", self.wmcp_version == other.wmcp_version);
        compare("probe_hash", self.probe_hash == other.probe_hash);
        compare("probe_version", self.probe_version == other.probe_version);
        compare("config_hash", self.config_hash == other.config_hash);
        compare("warm_start", self.warm_start == other.warm_start);
        compare("participants", self.participants == other.participants);
        compare("min_participants", self.min_participants == other.min_participants);
        compare("visibility", self.visibility == other.visibility);
        names
    }
}

impl WarmStart {
    /// Reads a pin as [`Self::to_json`] has written it.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &[u8]) -> Result<Self, DomainError> {
        let code = ErrorCode::ConfigInvalid;
        let value = Value::parse(text).map_err(|why| DomainError::new(code, why.to_string()))?;
        let mut fields = Fields::of(value, "warm_start", code)?;
        let pin = Self::fields(&mut fields)?;
        fields.done()?;
        Ok(pin)
    }

    /// The pin as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "release": self.release,
            "encoder_group_hash": self.encoder_group_hash,
            "file_hash": self.file_hash,
            "source_checkpoint": self.source_checkpoint,
        })
        .to_string()
    }

    fn fields(fields: &mut Fields) -> Result<Self, DomainError> {
        Ok(Self {
            release: free_text(fields, "release", 256)?,
            encoder_group_hash: fields.digest("encoder_group_hash")?,
            file_hash: fields.optional_digest("file_hash")?,
            source_checkpoint: fields.optional_digest("source_checkpoint")?,
        })
    }

    fn read(outer: &mut Fields) -> Result<Option<Self>, DomainError> {
        if !outer.has("warm_start") {
            outer.optional("warm_start");
            return Ok(None);
        }
        let mut fields = outer.object("warm_start")?;
        let pin = Self::fields(&mut fields)?;
        fields.done()?;
        Ok(Some(pin))
    }
}

fn participants(fields: &mut Fields) -> Result<Vec<String>, DomainError> {
    if !fields.has("participants") {
        fields.optional("participants");
        return Ok(Vec::new());
    }
    let mut names = fields.strings("participants")?;
    if names.len() > MAX_PARTICIPANTS {
        return Err(fields.refuse("participants", &format!("has more than {MAX_PARTICIPANTS} names")));
    }
    if !names.iter().all(|name| is_participant(name)) {
        return Err(fields.refuse(
            "participants",
            "must hold names of 1 to 128 characters without control characters or line separators",
        ));
    }
    names.sort();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(fields.refuse("participants", "names a participant twice"));
    }
    Ok(names)
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The newest committed round.
    pub round: u64,
    /// H1 of its checkpoint.
    pub content_hash: ContentHash,
    /// Digest of its tensors' names and shapes.
    pub structure: Sha256Hash,
    /// The header's schema version.
    pub schema_version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0663139c7ec0749f47c1f3cdc3b943c02fed3c14834ce0dc2292a006c673f41b";

    #[test]
    fn a_registration_with_everything_is_read() {
        let text = format!(
            r#"{{"run":"r-1","consortium":"acme","wmcp_version":"wmcp-1.0.0","probe_hash":"{HASH}","probe_version":2,
            "config_hash":"{HASH}","warm_start":{{"release":"vjepa2-2.0","encoder_group_hash":"{HASH}"}},
            "participants":["silo-α","a"],"min_participants":2,"visibility":"public"}}"#
        );
        let pins = Pins::parse(text.as_bytes()).unwrap();
        assert_eq!(pins.participants, ["a", "silo-α"]);
        assert_eq!(pins.differences(&pins), [""; 0]);
        let least = Pins::parse(br#"{"run":"r","consortium":"c","wmcp_version":"w"}"#).unwrap();
        assert_eq!(least.visibility, Visibility::Members);
        assert_eq!(pins.differences(&least).len(), 9);
        let zero = format!(r#"{{"run":"r","consortium":"c","wmcp_version":"w","probe_hash":"{}"}}"#, "0".repeat(64));
        assert_eq!(Pins::parse(zero.as_bytes()).unwrap(), least);
    }

    #[test]
    fn what_no_registration_may_hold_is_refused_by_its_field() {
        for (change, field) in [
            (r#""run":"../x""#, "run.run"),
            (r#""run":".x""#, "run.run"),
            (r#""run":"é""#, "run.run"),
            (r#""run":7"#, "run.run"),
            (r#""wmcp_version":"wmcp-é""#, "run.wmcp_version"),
            (r#""wmcp_version":"""#, "run.wmcp_version"),
            (r#""probe_hash":"ff""#, "run.probe_hash"),
            (r#""probe_version":-1"#, "run.probe_version"),
            (r#""probe_version":1.0"#, "run.probe_version"),
            (r#""participants":["a","a"]"#, "run.participants"),
            (r#""participants":["a\u2028b"]"#, "run.participants"),
            (r#""participants":["a\nb"]"#, "run.participants"),
            (r#""participants":[""]"#, "run.participants"),
            (r#""participants":["a"],"min_participants":2"#, "run.min_participants"),
            (r#""visibility":"secret""#, "run.visibility"),
            (r#""warm_start":{"release":"x"}"#, "run.warm_start.encoder_group_hash"),
        ] {
            let key = change.split('"').nth(1).unwrap();
            let base: Vec<_> = [
                ("run", r#""run":"r""#),
                ("consortium", r#""consortium":"c""#),
                ("wmcp_version", r#""wmcp_version":"w""#),
            ]
            .into_iter()
            .filter(|(name, _)| *name != key)
            .map(|(_, text)| text)
            .chain([change])
            .collect();
            let error = Pins::parse(format!("{{{}}}", base.join(",")).as_bytes()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ConfigInvalid);
            assert_eq!(error.fields()["field"], field, "{change}");
        }
        assert!(Pins::parse(br#"{"run":"r","consortium":"c","wmcp_version":"w","x":1}"#).is_err());
        assert!(Pins::parse(b"[]").is_err());
    }
}
