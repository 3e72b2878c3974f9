//! A round is committed, or given up.

use std::path::Path;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::value::RawValue;

use super::document::read_small;
use super::error::Error;
use super::retry::patiently;
use super::run::RemoteRun;
use crate::api::run::{Abort, NewAbort, NewCommit, Round};
use crate::core::checkpoint::Header;
use crate::core::digest::{ContentHash, RecordHash};
use crate::core::document::contribution::ContributionRecord;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::hash_mismatch;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The longest file with a record: a ledger that a coordinator keeps.
const LARGEST: u64 = 64 << 20;

/// A contribution record as it was written, which is how it enters the ledger.
#[derive(Clone, Debug)]
pub struct Record {
    text: Box<RawValue>,
    hash: RecordHash,
}

impl Record {
    /// Reads the record that belongs to a checkpoint: from a file of its own, or from a ledger that has one a line.
    ///
    /// # Errors
    /// A verdict when it is no record, or the ledger has none of this checkpoint.
    pub fn read(path: &Path, committed: ContentHash) -> Result<Self, Error> {
        let text = read_small(path, LARGEST)?;
        let text = String::from_utf8(text).map_err(|_| not_json())?;
        Self::find(&text, committed)
    }

    fn find(text: &str, committed: ContentHash) -> Result<Self, Error> {
        let lines: Vec<&str> = text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.len() < 2 || !lines.iter().all(|line| line.starts_with('{') && line.ends_with('}')) {
            let record = ContributionRecord::parse(text.as_bytes())?;
            return Self::take(text, &record);
        }
        for line in lines {
            let record = ContributionRecord::parse(line.as_bytes())?;
            if record.global_model_hash == committed {
                return Self::take(line, &record);
            }
        }
        Err(DomainError::new(ErrorCode::ProvenanceFailed, "the ledger has no record of this checkpoint")
            .field("cause", "no_record")
            .field("global_model_hash", committed.to_string())
            .remedy("Give the ledger to which the coordinator has added the round that made this checkpoint.")
            .into())
    }

    fn take(text: &str, record: &ContributionRecord) -> Result<Self, Error> {
        let text = RawValue::from_string(text.to_owned()).map_err(|_| not_json())?;
        Ok(Self { text, hash: record.hash() })
    }
}

fn not_json() -> Error {
    DomainError::new(ErrorCode::MerkleVerifyFailed, "the contribution record is not valid JSON").into()
}

impl RemoteRun<'_> {
    /// Commits a stored checkpoint as the next round; true beside the round when it was not committed before.
    ///
    /// A commit that was repeated, by a lost answer or by a second call, is the same commit.
    ///
    /// # Errors
    /// A verdict when the server refuses it, with the head in the fields.
    pub async fn commit(&self, header: &Header, record: Option<&Record>) -> Result<(Round, bool), Error> {
        let hash = header.content_hash.to_string();
        let commit = NewCommit {
            content_hash: hash.clone(),
            round_index: header.round_index,
            parent_hash: header.parent_hash.map(|parent| parent.to_string()),
            record: record.map(|record| record.text.clone()),
            upload: None,
        };
        // With the record in it: another record for the same checkpoint is another commit, and is refused as that.
        let key = record.map_or_else(|| hash.clone(), |record| format!("{hash}-{}", record.hash));
        let (round, created): (Round, bool) = self.post("commits", &commit, &key).await?;
        if round.content_hash != hash {
            return Err(hash_mismatch(&hash, &round.content_hash).into());
        }
        Ok((round, created))
    }

    /// Gives up the training of a round; the same round can then be tried again.
    ///
    /// # Errors
    /// A verdict when this round is not open, or the reason is none of the codes.
    pub async fn abort(&self, abort: &NewAbort) -> Result<Abort, Error> {
        // One abort for each attempt, however often it has to be sent.
        let attempt = self.head().await?.attempt;
        let key = format!("abort-{}-{attempt}", abort.round_index);
        Ok(self.post("aborts", abort, &key).await?.0)
    }

    async fn post<T: serde::de::DeserializeOwned>(
        &self,
        part: &str,
        body: &impl serde::Serialize,
        key: &str,
    ) -> Result<(T, bool), Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::usage(error.to_string(), "Check the arguments."))?;
        let url = self.part(part);
        patiently(&**self.progress, async || {
            let request = self.server.request(Method::POST, url.clone()).header(IDEMPOTENCY_KEY, key);
            self.server.post(request.header(CONTENT_TYPE, "application/json").body(body.clone())).await
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lensemble/run/ledger.jsonl");
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_record_comes_alone_or_out_of_a_ledger() {
        let ledger = ledger();
        let lines: Vec<&str> = ledger.lines().collect();
        let second = ContributionRecord::parse(lines[1].as_bytes()).unwrap();
        let found = Record::find(&ledger, second.global_model_hash).unwrap();
        assert_eq!((found.text.get(), found.hash), (lines[1], second.hash()));
        let other = ContentHash::from_bytes([7; 32]);
        assert!(Record::find(&ledger, other).unwrap_err().is(ErrorCode::ProvenanceFailed));
        // Alone it is taken whatever it names: the server says what is wrong with it.
        assert_eq!(Record::find(&format!("{}\n", lines[1]), other).unwrap().hash, second.hash());
        let pretty = lines[1].replace(',', ",\n  ");
        assert_eq!(Record::find(&pretty, other).unwrap().hash, second.hash());
        for text in ["", "{}", "[]", "{\"schema_version\":1}\n{}"] {
            assert!(Record::find(text, other).unwrap_err().is_verdict(), "{text}");
        }
    }
}
