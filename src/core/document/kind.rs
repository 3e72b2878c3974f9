//! The table of kinds: name, newest schema version, and the code of a refusal.

use super::commitment::DatasetCommitment;
use super::evidence::Bundle;
use super::report::{AlignmentClaim, AlignmentRecomputation, EvalReport, FrameDriftRecord, FrameDriftReport};
use super::round_message::{RoundClose, RoundOpen};
use super::run_manifest::RunManifest;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Fields, Value};

/// The kind of the public probe, a safetensors file of any size; every other kind is JSON.
pub const PUBLIC_PROBE: &str = "public-probe";

/// A kind of JSON document that a run keeps.
///
/// Two kinds are not here: contribution records enter a run's ledger with a commit, and the public probe is a
/// safetensors file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What a run was started with (Lensemble RFC-0009 section 6).
    RunManifest,
    /// What a participant's data set is bound to (RFC-0014 section 4).
    DatasetCommitment,
    /// How well a checkpoint does (data model section 13.1).
    EvalReport,
    /// How far the participants' frames have drifted apart (data model section 13.2).
    FrameDriftReport,
    /// The same as a line of the metrics stream (RFC-0015).
    FrameDriftRecord,
    /// What somebody claims of an alignment.
    AlignmentClaim,
    /// What a verifier has recomputed of such a claim.
    AlignmentRecomputation,
    /// The opening of a round as the coordinator sends it.
    RoundOpen,
    /// The closing of a round.
    RoundClose,
    /// References to everything that a claim rests on.
    EvidenceBundle,
    /// References to everything that a release consists of.
    ReleaseBundle,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::RunManifest,
        Self::DatasetCommitment,
        Self::EvalReport,
        Self::FrameDriftReport,
        Self::FrameDriftRecord,
        Self::AlignmentClaim,
        Self::AlignmentRecomputation,
        Self::RoundOpen,
        Self::RoundClose,
        Self::EvidenceBundle,
        Self::ReleaseBundle,
    ];

    /// The name in paths.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunManifest => "run-manifest",
            Self::DatasetCommitment => "dataset-commitment",
            Self::EvalReport => "eval-report",
            Self::FrameDriftReport => "frame-drift-report",
            Self::FrameDriftRecord => "frame-drift-record",
            Self::AlignmentClaim => "alignment-claim",
            Self::AlignmentRecomputation => "alignment-recomputation",
            Self::RoundOpen => "round-open",
            Self::RoundClose => "round-close",
            Self::EvidenceBundle => "evidence-bundle",
            Self::ReleaseBundle => "release-bundle",
        }
    }

    /// Finds a kind by its name; `run_manifest` and `RunManifest` mean `run-manifest`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| same_name(kind.name(), name))
    }

    /// The oldest schema version that is read: the first that there was with these fields.
    #[must_use]
    pub const fn oldest(self) -> u32 {
        match self {
            Self::EvidenceBundle => 2,
            _ => 1,
        }
    }

    /// The newest schema version that is read.
    #[must_use]
    pub const fn newest(self) -> u32 {
        match self {
            Self::RoundOpen | Self::RoundClose | Self::EvidenceBundle => 2,
            _ => 1,
        }
    }

    /// The code of a document that does not follow its schema: the one that Lensemble's library raises.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::RunManifest => ErrorCode::ConfigInvalid,
            Self::DatasetCommitment => ErrorCode::ProvenanceFailed,
            Self::EvalReport => ErrorCode::EvaluationFailed,
            Self::FrameDriftReport | Self::FrameDriftRecord | Self::AlignmentClaim | Self::AlignmentRecomputation => {
                ErrorCode::GaugeFailed
            }
            Self::RoundOpen | Self::RoundClose => ErrorCode::RoundFailed,
            Self::EvidenceBundle | Self::ReleaseBundle => ErrorCode::ArtifactInvalid,
        }
    }
}

/// True for spellings of one name that differ in case and in what joins the words.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
    };
    letters(one) == letters(other)
}

/// A document that follows its schema.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the kinds say what they are")]
pub enum Document {
    RunManifest(RunManifest),
    DatasetCommitment(DatasetCommitment),
    EvalReport(EvalReport),
    FrameDriftReport(FrameDriftReport),
    FrameDriftRecord(FrameDriftRecord),
    AlignmentClaim(AlignmentClaim),
    AlignmentRecomputation(AlignmentRecomputation),
    RoundOpen(RoundOpen),
    RoundClose(RoundClose),
    EvidenceBundle(Bundle),
    ReleaseBundle(Bundle),
}

impl Document {
    /// Reads a document of a kind: version, fields, and every rule that needs nothing else.
    ///
    /// # Errors
    /// `schema_version_mismatch`, `residency_violation`, or the code of the kind.
    pub fn decode(kind: Kind, text: &[u8]) -> Result<Self, DomainError> {
        Self::decode_versioned(kind, text).map(|(document, _)| document)
    }

    /// Reads a document of a kind, and the schema version in it.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_versioned(kind: Kind, text: &[u8]) -> Result<(Self, u32), DomainError> {
        let code = kind.code();
        let root = kind.name().replace('-', "_");
        let value = Value::parse(text)
            .map_err(|why| DomainError::new(code, format!("the {} is not valid: {why}", kind.name())))?;
        let version = version(&value, kind)?;
        let mut fields = Fields::of(value, root, code)?;
        fields.take("schema_version")?;
        let document = match kind {
            Kind::RunManifest => Self::RunManifest(RunManifest::read(&mut fields)?),
            Kind::DatasetCommitment => Self::DatasetCommitment(DatasetCommitment::read(&mut fields)?),
            Kind::EvalReport => Self::EvalReport(EvalReport::read(&mut fields)?),
            Kind::FrameDriftReport => Self::FrameDriftReport(FrameDriftReport::read(&mut fields)?),
            Kind::FrameDriftRecord => Self::FrameDriftRecord(FrameDriftRecord::read(&mut fields)?),
            Kind::AlignmentClaim => Self::AlignmentClaim(AlignmentClaim::read(&mut fields)?),
            Kind::AlignmentRecomputation => Self::AlignmentRecomputation(AlignmentRecomputation::read(&mut fields)?),
            Kind::RoundOpen => Self::RoundOpen(RoundOpen::read(&mut fields, version)?),
            Kind::RoundClose => Self::RoundClose(RoundClose::read(&mut fields, version)?),
            Kind::EvidenceBundle => Self::EvidenceBundle(Bundle::read_evidence(&mut fields)?),
            Kind::ReleaseBundle => Self::ReleaseBundle(Bundle::read_release(&mut fields)?),
        };
        fields.done()?;
        Ok((document, version))
    }
}

/// The version gate on a document that has been read as a tree.
pub(super) fn version(value: &Value, kind: Kind) -> Result<u32, DomainError> {
    let found = gate(value, kind.name(), kind.newest(), kind.code())?;
    if found >= kind.oldest() {
        return Ok(found);
    }
    let message = format!("the {} has a schema_version that is too old to be read", kind.name());
    Err(DomainError::new(ErrorCode::SchemaVersionMismatch, message)
        .field("field", "schema_version")
        .field("file_schema_version", found)
        .field("reader_max_version", kind.newest()))
}

/// Reads the integer `schema_version` before any other field is looked at.
///
/// # Errors
/// `code` when the value is not an object; `schema_version_mismatch` when the version is missing, not an integer, or
/// outside 1 to `newest`.
pub fn gate(value: &Value, what: &str, newest: u32, code: ErrorCode) -> Result<u32, DomainError> {
    let Value::Object(entries) = value else {
        return Err(DomainError::new(code, format!("the {what} must be an object and is {}", value.kind())));
    };
    let mismatch = |message: String, found: serde_json::Value| {
        DomainError::new(ErrorCode::SchemaVersionMismatch, message)
            .field("field", "schema_version")
            .field("file_schema_version", found)
            .field("reader_max_version", newest)
    };
    match entries.get("schema_version") {
        None => Err(mismatch(format!("the {what} has no schema_version"), serde_json::Value::Null)),
        Some(Value::Integer(digits)) => match digits.parse::<u32>() {
            Ok(number) if (1..=newest).contains(&number) => Ok(number),
            number => Err(mismatch(
                format!("the {what} has a schema_version that this reader does not know; it reads 1 to {newest}"),
                number.map_or_else(|_| digits.chars().take(24).collect::<String>().into(), Into::into),
            )),
        },
        Some(other) => Err(mismatch(
            format!("the schema_version of the {what} must be an integer and is {}", other.kind()),
            serde_json::Value::Null,
        )),
    }
}
