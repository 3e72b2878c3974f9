//! What an audit can find: a closed list of codes, each with a severity of its own.

use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Shown, and no reason for doubt.
    Information,
    /// No damage, but less assurance than there could be.
    Warning,
    /// The history is not what it claims to be.
    Failure,
}

impl Severity {
    /// As it is spelled on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Information => "information",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

macro_rules! audit_codes {
    ($($variant:ident, $code:literal, $severity:ident, $meaning:literal;)*) => {
        /// What was found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum AuditCode {
            $(#[doc = $meaning] $variant,)*
        }

        impl AuditCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code as it is spelled on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// How much it matters.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

audit_codes! {
    LineageNoGenesis, "LINEAGE_NO_GENESIS", Failure, "the chain does not begin with a round 0 that has no parent";
    RoundReordered, "ROUND_REORDERED", Failure, "rounds are missing or not in order";
    ParentOrphan, "PARENT_ORPHAN", Failure, "a round's parent is not in the run";
    ParentContentMismatch, "PARENT_CONTENT_MISMATCH", Failure, "a parent hash is not the content hash of the parent";
    RunForkUndeclared, "RUN_FORK_UNDECLARED", Failure, "two rounds have one parent";
    HeadMismatch, "HEAD_MISMATCH", Failure, "the head is not the newest round";
    StateDiverges, "STATE_DIVERGES", Failure, "two places that must say the same do not";
    BlobMissing, "BLOB_MISSING", Failure, "bytes that a round stands on are gone";
    BlobSizeMismatch, "BLOB_SIZE_MISMATCH", Failure, "stored bytes have another size than they were received with";
    BlobHashMismatch, "BLOB_HASH_MISMATCH", Failure, "stored bytes are not those that were received";
    EntryMalformed, "ENTRY_MALFORMED", Failure, "something stored cannot be read as what it must be";
    LedgerChainBroken, "LEDGER_CHAIN_BROKEN", Failure, "a ledger record does not follow the one before, or the end is another";
    RoundContributionsMismatch, "ROUND_CONTRIBUTIONS_MISMATCH", Failure, "a ledger record does not fit its round or the commitments in force";
    AggNondeterministic, "AGG_NONDETERMINISTIC", Warning, "two results were offered for one round; the second was refused";
    DatasetRootChanged, "DATASET_ROOT_CHANGED", Warning, "a participant has replaced its data-set commitment during the run";
    NotChecked, "NOT_CHECKED", Warning, "what this audit has not looked at";
    RoundAborted, "ROUND_ABORTED", Information, "the training of a round was given up";
    RoundRerun, "ROUND_RERUN", Information, "a round succeeded after it was aborted";
}

impl fmt::Display for AuditCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was found.
    pub code: AuditCode,
    /// The round it belongs to, if it belongs to one.
    pub round_index: Option<u64>,
    /// What should be there.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
    /// Which of the many places, in words.
    pub place: String,
}

/// How much an audit looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Chain, pins, ledger, documents, and that every file is there.
    Quick,
    /// Also the size of every file.
    Full,
    /// Also every byte.
    Deep,
}

impl Tier {
    /// As it is spelled on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Deep => "deep",
        }
    }

    /// Finds a tier by its spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Quick, Self::Full, Self::Deep].into_iter().find(|tier| tier.as_str() == text)
    }
}
