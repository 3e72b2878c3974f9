//! What an audit is fed: claims as they stand somewhere, and what was really found.

use super::finding::Tier;
use crate::core::checkpoint::Links;
use crate::core::digest::{BlobDigest, ContentHash, DatasetRoot, GroupHash, RecordHash};
use crate::core::run::Pins;

/// What a run says of itself.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// What never changes.
    pub pins: Pins,
    /// The newest round and its hash.
    pub head: Option<(u64, ContentHash)>,
    /// The hash of the last ledger record.
    pub ledger_tail: Option<RecordHash>,
    /// Records in the ledger.
    pub ledger_count: u64,
    /// The round of the last ledger record.
    pub ledger_round: Option<u64>,
    /// Pieces of news, when they are looked at.
    pub event_seq: Option<u64>,
    /// Aborts, when news are looked at.
    pub aborts: u64,
    /// How much is looked at.
    pub tier: Tier,
}

/// What became of bytes that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Not looked for.
    Unknown,
    /// They are gone.
    Missing,
    /// They are there, with this size.
    Size(u64),
    /// They are there, and hashed.
    Hashed(u64, BlobDigest),
    /// They are known to be damaged.
    Damaged,
}

/// A file of an artifact.
#[derive(Clone, Debug)]
pub struct FileFacts {
    /// Its name.
    pub name: String,
    /// H4 as it is claimed.
    pub digest: BlobDigest,
    /// Bytes as they are claimed.
    pub size: u64,
    /// What is really there.
    pub presence: Presence,
}

/// What is claimed of an artifact besides its header.
#[derive(Clone, Debug)]
pub struct ArtifactFacts {
    /// The round index beside it.
    pub round_index: u64,
    /// The parent beside it.
    pub parent_hash: Option<ContentHash>,
    /// SHA-256 of the header beside it.
    pub header_digest: Option<BlobDigest>,
    /// Bytes of all files beside it.
    pub size: u64,
    /// H2 of its encoder.
    pub theta: Option<GroupHash>,
    /// H2 of its predictor.
    pub phi: Option<GroupHash>,
    /// The files; none means that their list is gone.
    pub files: Vec<FileFacts>,
    /// True when every hash was recomputed from the bytes and agreed, false when one did not; `None` when not tried.
    pub recomputed: Option<bool>,
    /// Columns that say something else than the header or the bytes do.
    pub diverging: Vec<Divergence>,
}

/// Two places that must say the same.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// Which of them is doubted.
    pub place: &'static str,
    /// What it should say.
    pub expected: String,
    /// What it says.
    pub found: String,
}

/// A piece of news and the rows that it tells of.
#[derive(Clone, Debug)]
pub struct EventFacts {
    /// Its number.
    pub seq: u64,
    /// What happened.
    pub kind: String,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// What is told, as JSON.
    pub data: String,
    /// The abort of this number: what its news must say, and when it was.
    pub abort: Option<(serde_json::Value, i64)>,
    /// The document of this number: what its news must say, and when it came.
    pub document: Option<(serde_json::Value, i64)>,
}

/// What is claimed of a round.
#[derive(Clone, Debug)]
pub struct RoundFacts {
    /// Its index.
    pub round_index: u64,
    /// H1.
    pub content_hash: ContentHash,
    /// H1 of the parent.
    pub parent_hash: Option<ContentHash>,
    /// SHA-256 of the header when it was committed, where that is known.
    pub header_digest: Option<BlobDigest>,
    /// H2 of the encoder.
    pub theta: Option<GroupHash>,
    /// H2 of the predictor.
    pub phi: Option<GroupHash>,
    /// Bytes of all files.
    pub size: u64,
    /// Which attempt succeeded.
    pub attempt: u64,
    /// When it was committed, in microseconds since 1970, where that is known as exactly.
    pub committed_at: Option<i64>,
    /// Aborts of the round before it.
    pub aborts: u64,
    /// SHA-256 of the header that is there, and what it says; `None` when it is gone.
    pub header: Option<(BlobDigest, Option<Links>)>,
    /// The artifact; `None` when it is gone.
    pub artifact: Option<ArtifactFacts>,
}

/// A ledger record and what stands beside it.
#[derive(Clone, Debug)]
pub struct LedgerFacts {
    /// The line.
    pub line: String,
    /// The hash beside it, where there is one.
    pub record_hash: Option<String>,
    /// The round beside it, where there is one.
    pub round_index: Option<u64>,
    /// The hash of the record before, beside it, where there is one.
    pub prev_record_hash: Option<Option<String>>,
    /// The checkpoint beside it, where there is one.
    pub global_model_hash: Option<String>,
}

/// A commitment and the document that it was read from.
#[derive(Clone, Debug)]
pub struct CommitmentFacts {
    /// The participant.
    pub participant: String,
    /// The first round.
    pub from_round: u64,
    /// The root that is held to be in force.
    pub root: DatasetRoot,
    /// SHA-256 of the document as it is claimed.
    pub digest: BlobDigest,
    /// When it came, in microseconds since 1970, where that is known as exactly.
    pub received_at: Option<i64>,
    /// The document's bytes; `None` when they are gone.
    pub document: Option<Vec<u8>>,
}
