//! Why something was refused: a stable code, a sentence for a person, and what to do about it.
//!
//! [`ErrorCode`] is the only list of codes. Codes are append-only: a code that went out of use keeps its name.
//! Which HTTP status a code becomes is decided where HTTP is spoken, not here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

macro_rules! codes {
    ($($variant:ident, $code:literal, $class:literal, $remediation:literal;)*) => {
        /// What kind of refusal this is; stable over versions, meant for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $code, "`")] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of `docs/errors.md`.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code as it is spelled on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The name of the error class that Lensemble's library raises for this code.
            #[must_use]
            pub const fn class(self) -> &'static str {
                match self { $(Self::$variant => $class,)* }
            }

            /// What to do, when the place that refuses knows nothing better.
            #[must_use]
            pub const fn remediation(self) -> &'static str {
                match self { $(Self::$variant => $remediation,)* }
            }
        }
    };
}

codes! {
    Internal, "internal", "LensembleError",
        "Try again; if it happens again, give the operator the request id.";
    ConfigInvalid, "config_invalid", "ConfigError",
        "Correct the named setting or parameter.";
    WmcpContractViolation, "wmcp_contract_violation", "ContractViolation",
        "Use the contract version that the run is pinned to.";
    ResidencyViolation, "residency_violation", "ResidencyViolation",
        "Send only tensors of the groups encoder and predictor; action heads and other private groups stay with their owner.";
    GaugeFailed, "gauge_failed", "GaugeError",
        "Compute the report again from aligned frames.";
    FrameDriftExceeded, "frame_drift_exceeded", "FrameDriftExceeded",
        "Bring the participants' frames together before the next round.";
    ProcrustesDegenerate, "procrustes_degenerate", "DegenerateProcrustes",
        "Take more landmarks or a better conditioned probe.";
    AggregationFailed, "aggregation_failed", "AggregationError",
        "Run the round again.";
    SecureAggFailed, "secure_agg_failed", "SecureAggregationError",
        "Run the round again with enough participants.";
    AggNondeterministic, "agg_nondeterministic", "NonDeterministicAggregation",
        "Stop the coordinators, compare their inputs, and commit one result.";
    DpBudgetExceeded, "dp_budget_exceeded", "PrivacyBudgetExceeded",
        "Stop training, or agree on another privacy budget in a new run.";
    ProvenanceFailed, "provenance_failed", "ProvenanceError",
        "Read the run's head and continue from it.";
    CommitmentMismatch, "commitment_mismatch", "CommitmentMismatch",
        "Use the data-set root that the participant has committed for this round.";
    MerkleVerifyFailed, "merkle_verify_failed", "MerkleVerificationError",
        "Rebuild the record or proof from its source.";
    ArtifactInvalid, "artifact_invalid", "ArtifactError",
        "Write the artifact again with Lensemble's save_checkpoint, or correct the named field.";
    SchemaVersionMismatch, "schema_version_mismatch", "SchemaVersionMismatch",
        "Write the document with a schema version that this server reads, or upgrade the server.";
    CheckpointIntegrity, "checkpoint_integrity", "CheckpointIntegrityError",
        "Send the artifact again from its source and check it with `cairn verify` first.";
    RoundFailed, "round_failed", "RoundError",
        "Read the run's head and take the round that follows it.";
    FaultToleranceExceeded, "fault_tolerance_exceeded", "FaultToleranceExceeded",
        "Wait until enough participants have contributed.";
    ProbeInvalid, "probe_invalid", "ProbeError",
        "Use the public probe that the run is pinned to.";
    EvaluationFailed, "evaluation_failed", "EvaluationError",
        "Correct the named value of the report.";
    RegistryUnauthenticated, "registry_unauthenticated", "RegistryError",
        "Send a bearer token that is valid here.";
    RegistryForbidden, "registry_forbidden", "RegistryError",
        "Ask the operator for a role that allows this.";
    RegistryNotFound, "registry_not_found", "RegistryError",
        "Check the hash or the path; an artifact that was never pushed here has to be pushed first.";
    RegistryMethod, "registry_method", "RegistryError",
        "Use one of the methods in the Allow header.";
    RegistryTimeout, "registry_timeout", "RegistryError",
        "Send again; an upload session continues at its Upload-Offset.";
    RegistryUploadOffset, "registry_upload_offset", "RegistryError",
        "Continue at the offset in the Upload-Offset header.";
    RegistryUploadState, "registry_upload_state", "RegistryError",
        "Read the session with GET; open a new one when this one is over.";
    RegistryDigestMissing, "registry_digest_missing", "RegistryError",
        "Send the digest that this call requires.";
    RegistryConflict, "registry_conflict", "RegistryError",
        "Read what is stored under this name, and send the same or take another name.";
    RegistryPrecondition, "registry_precondition", "RegistryError",
        "Read the current state and repeat the call against it.";
    RegistryTooLarge, "registry_too_large", "RegistryError",
        "Stay below the limit that is named in the fields.";
    RegistryUnsupportedMedia, "registry_unsupported_media", "RegistryError",
        "Send the body in the media type that the message names, without a content encoding.";
    RegistryRange, "registry_range", "RegistryError",
        "Ask for a range that lies inside the size given in Content-Range.";
    RegistryRateLimited, "registry_rate_limited", "RegistryError",
        "Wait for the time in Retry-After.";
    RegistryUnavailable, "registry_unavailable", "RegistryError",
        "Try again after the time in Retry-After.";
    RegistryStorageFull, "registry_storage_full", "RegistryError",
        "Ask the operator for space, then send again.";
}

impl ErrorCode {
    /// Codes that must never be caught and ignored: each leaves an audit record and a log line of its own.
    #[must_use]
    pub const fn is_critical(self) -> bool {
        matches!(
            self,
            Self::ResidencyViolation
                | Self::CommitmentMismatch
                | Self::AggNondeterministic
                | Self::CheckpointIntegrity
                | Self::MerkleVerifyFailed
        )
    }

    /// Finds a code by its spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal, complete enough to be shown to whoever caused it.
///
/// Messages name counts, sizes, offsets and field names; never tensor bytes or excerpts of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainError {
    code: ErrorCode,
    message: String,
    remediation: Cow<'static, str>,
    fields: BTreeMap<Cow<'static, str>, Value>,
    invariant: Option<Cow<'static, str>>,
}

impl DomainError {
    /// A refusal with the usual remediation of its code.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            remediation: Cow::Borrowed(code.remediation()),
            fields: BTreeMap::new(),
            invariant: None,
        }
    }

    /// `checkpoint_integrity`: the bytes are not what they claim to be.
    #[must_use]
    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::CheckpointIntegrity, message)
    }

    /// `artifact_invalid`: the document does not follow its schema.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ArtifactInvalid, message)
    }

    /// Adds a carried value, for programs.
    #[must_use]
    pub fn field(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Replaces the remediation by a better one.
    #[must_use]
    pub fn remedy(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.remediation = text.into();
        self
    }

    /// Names the invariant that was violated.
    #[must_use]
    pub fn invariant(mut self, id: impl Into<Cow<'static, str>>) -> Self {
        self.invariant = Some(id.into());
        self
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// The sentence for a person.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    #[must_use]
    pub fn remediation(&self) -> &str {
        &self.remediation
    }

    /// The carried values.
    #[must_use]
    pub const fn fields(&self) -> &BTreeMap<Cow<'static, str>, Value> {
        &self.fields
    }

    /// The violated invariant, when there is one.
    #[must_use]
    pub fn violated(&self) -> Option<&str> {
        self.invariant.as_deref()
    }
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for DomainError {}
