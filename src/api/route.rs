//! Every path of the service. No other place spells one.

use std::fmt::{Display, Write as _};

use crate::core::digest::{ContentHash, GroupHash};

/// Header with the bytes of a file that are stored so far, or with the place where a body continues.
pub const UPLOAD_OFFSET: &str = "upload-offset";
/// Header with the length of the whole file.
pub const UPLOAD_LENGTH: &str = "upload-length";
/// Header with the name of the request in the server's log.
pub const REQUEST_ID: &str = "x-request-id";
/// Header with the length of a file; it gets through proxies that take Content-Length off the answer to a HEAD.
pub const LINKED_SIZE: &str = "x-linked-size";
/// Header with the element type of a tensor.
pub const TENSOR_DTYPE: &str = "x-tensor-dtype";
/// Header with the dimensions of a tensor, as a JSON array.
pub const TENSOR_SHAPE: &str = "x-tensor-shape";
/// Media type of a part of an upload.
pub const PARTIAL_UPLOAD: &str = "application/partial-upload";
/// Media type of an artifact directory as a tar archive.
pub const TAR: &str = "application/x-tar";

/// An artifact.
pub const ARTIFACT: &str = "/v1/artifacts/{content_hash}";
/// Its header as it was received.
pub const HEADER: &str = "/v1/artifacts/{content_hash}/header.json";
/// One of its stored files.
pub const FILE: &str = "/v1/artifacts/{content_hash}/files/{file}";
/// One of its parameter groups; the last segment ends in `.safetensors`.
pub const GROUP: &str = "/v1/artifacts/{content_hash}/groups/{group}";
/// One of its tensors.
pub const TENSOR: &str = "/v1/artifacts/{content_hash}/tensors/{name}";
/// The whole directory as an archive.
pub const ARCHIVE: &str = "/v1/artifacts/{content_hash}/archive.tar";
/// Recompute its hashes from the stored bytes.
pub const VERIFY: &str = "/v1/artifacts/{content_hash}/verify";
/// Its ancestors and children.
pub const LINEAGE: &str = "/v1/artifacts/{content_hash}/lineage";
/// A parameter group by its own hash.
pub const PARAMS: &str = "/v1/params/{group_hash}";
/// Upload sessions.
pub const UPLOADS: &str = "/v1/uploads";
/// One upload session.
pub const UPLOAD: &str = "/v1/uploads/{id}";
/// One file of an upload session.
pub const UPLOAD_FILE: &str = "/v1/uploads/{id}/files/{file}";
/// Verify a session and make its artifact visible.
pub const UPLOAD_FINISH: &str = "/v1/uploads/{id}/finish";
/// Runs.
pub const RUNS: &str = "/v1/runs";
/// One run.
pub const RUN: &str = "/v1/runs/{run}";
/// What a run stands at.
pub const HEAD: &str = "/v1/runs/{run}/head";
/// News of a run as they come.
pub const EVENTS: &str = "/v1/runs/{run}/events";
/// Where rounds are committed.
pub const COMMITS: &str = "/v1/runs/{run}/commits";
/// Where rounds are aborted.
pub const ABORTS: &str = "/v1/runs/{run}/aborts";
/// The rounds of a run.
pub const ROUNDS: &str = "/v1/runs/{run}/rounds";
/// One round.
pub const ROUND: &str = "/v1/runs/{run}/rounds/{round_index}";
/// Where a locator leads.
pub const RESOLVE: &str = "/v1/runs/{run}/resolve";
/// The audit of a run.
pub const AUDIT: &str = "/v1/runs/{run}/audit";
/// The ledger of a run.
pub const LEDGER: &str = "/v1/runs/{run}/ledger";
/// Check a ledger file.
pub const LEDGER_VERIFY: &str = "/v1/ledgers/verify";
/// Check a Merkle inclusion proof.
pub const PROOF_VERIFY: &str = "/v1/proofs/verify";
/// Hash a configuration.
pub const CONFIG_HASH: &str = "/v1/config-hash";
/// The documents of a run.
pub const DOCUMENTS: &str = "/v1/runs/{run}/documents";
/// Documents of one kind.
pub const DOCUMENTS_OF_KIND: &str = "/v1/runs/{run}/documents/{kind}";
/// One document.
pub const DOCUMENT: &str = "/v1/runs/{run}/documents/{kind}/{digest}";
/// What the participants of a run have committed to.
pub const COMMITMENTS: &str = "/v1/runs/{run}/commitments";
/// What one participant has committed to.
pub const PARTICIPANT_COMMITMENTS: &str = "/v1/runs/{run}/participants/{participant}/commitments";
/// Alive.
pub const HEALTHZ: &str = "/healthz";
/// Ready: database and store answer.
pub const READYZ: &str = "/readyz";
/// Figures for Prometheus.
pub const METRICS: &str = "/metrics";
/// The description of this interface.
pub const OPENAPI: &str = "/openapi.json";
/// The description for people.
pub const DOCS: &str = "/docs";
/// The description of every error code.
pub const ERRORS: &str = "/docs/errors";

/// The path of an artifact.
#[must_use]
pub fn artifact(hash: impl Display) -> String {
    format!("/v1/artifacts/{hash}")
}

/// The path of an artifact's header.
#[must_use]
pub fn header(hash: ContentHash) -> String {
    format!("/v1/artifacts/{hash}/header.json")
}

/// The path of a stored file; its name is one of the closed set of weight-file names and needs no escaping.
#[must_use]
pub fn file(hash: ContentHash, name: &str) -> String {
    format!("/v1/artifacts/{hash}/files/{name}")
}

/// The path of a parameter group.
#[must_use]
pub fn group(hash: ContentHash, name: &str) -> String {
    format!("/v1/artifacts/{hash}/groups/{name}.safetensors")
}

/// The path of a parameter group by its own hash.
#[must_use]
pub fn params(hash: GroupHash) -> String {
    format!("/v1/params/{hash}")
}

/// The path of an upload session.
#[must_use]
pub fn upload(id: &str) -> String {
    format!("/v1/uploads/{id}")
}

/// The path of a file of the upload session at the path `session`, which a `Location` has given.
#[must_use]
pub fn upload_file(session: &str, name: &str) -> String {
    format!("{session}/files/{name}")
}

/// The path that finishes the upload session at the path `session`, which a `Location` has given.
#[must_use]
pub fn upload_finish(session: &str) -> String {
    format!("{session}/finish")
}

/// The path of a run; its name needs no escaping.
#[must_use]
pub fn run(name: &str) -> String {
    format!("/v1/runs/{name}")
}

/// The path of a part of a run.
#[must_use]
pub fn of_run(name: &str, part: &str) -> String {
    format!("/v1/runs/{name}/{part}")
}

/// The path of what a participant of a run has committed to.
#[must_use]
pub fn commitments_of(run: &str, participant: &str) -> String {
    format!("/v1/runs/{run}/participants/{}/commitments", segment(participant))
}

/// The path of a run's documents of a kind.
#[must_use]
pub fn documents_of_kind(run: &str, kind: &str) -> String {
    format!("/v1/runs/{run}/documents/{}", segment(kind))
}

/// The path of a round.
#[must_use]
pub fn round(run: &str, index: u64) -> String {
    format!("/v1/runs/{run}/rounds/{index}")
}

/// The path of a document.
#[must_use]
pub fn document(run: &str, kind: &str, digest: &str) -> String {
    format!("/v1/runs/{run}/documents/{kind}/{digest}")
}

/// A text as one segment of a path, whatever is in it.
fn segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing into memory cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_is_one_segment_whatever_its_name() {
        assert_eq!(commitments_of("r", "silo-1"), "/v1/runs/r/participants/silo-1/commitments");
        assert_eq!(commitments_of("r", "a/b?α%"), "/v1/runs/r/participants/a%2Fb%3F%CE%B1%25/commitments");
    }
}
