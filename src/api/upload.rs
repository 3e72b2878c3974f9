//! What an upload session looks like from outside.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Problem;

/// An upload session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    /// Its name; whoever knows it may continue the upload.
    pub id: String,
    /// H1 that the header claims.
    pub content_hash: String,
    /// Where it stands.
    pub state: UploadState,
    /// The files, in the order of the header; the optional index once bytes of it have arrived.
    pub files: Vec<UploadFile>,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// Until when it can be continued; each stored byte postpones it.
    pub expires_at: String,
    /// While `finish` reads back what arrived out of order: bytes hashed so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifying_bytes: Option<u64>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// Where an upload session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UploadState {
    /// Bytes may be sent.
    Open,
    /// The artifact is visible.
    Finished,
    /// The bytes were not what the header says; they are gone.
    Refused,
    /// It was given up; its bytes are gone.
    Aborted,
}

/// One file of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadFile {
    /// Its name in the directory.
    pub name: String,
    /// Bytes that are stored durably; the upload continues here.
    pub offset: u64,
    /// Bytes of the whole file, once its header or the client has told.
    pub length: Option<u64>,
    /// Where to send it, relative to this server.
    pub url: String,
}
