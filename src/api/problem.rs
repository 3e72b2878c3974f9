//! `application/problem+json` (RFC 9457): the form of every refusal.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::route;
use crate::core::error::{DomainError, ErrorCode};

/// Media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable address of the code's description, relative to the documentation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status; 0 where no HTTP was spoken.
    #[serde(default)]
    pub status: u16,
    /// The stable code, for programs.
    pub code: String,
    /// The error class of Lensemble's library that this code stands for.
    pub class: String,
    /// What happened, for a person.
    pub message: String,
    /// What to do about it.
    pub remediation: String,
    /// Values that belong to the refusal: expected and found hashes, limits, offsets.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub fields: BTreeMap<String, Value>,
    /// The invariant that was violated, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<String>,
    /// The request in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// Writes a refusal down. `status` is 0 where no HTTP is spoken.
    #[must_use]
    pub fn new(error: &DomainError, status: u16) -> Self {
        let code = error.code();
        Self {
            kind: format!("{}#{code}", route::ERRORS),
            title: code.as_str().replace('_', " "),
            status,
            code: code.as_str().to_owned(),
            class: code.class().to_owned(),
            message: error.message().to_owned(),
            remediation: error.remediation().to_owned(),
            fields: error.fields().iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
            invariant: error.violated().map(str::to_owned),
            request_id: None,
        }
    }

    /// Reads a refusal back; a code that this version does not know counts as `internal`.
    #[must_use]
    pub fn to_error(&self) -> DomainError {
        let code = ErrorCode::parse(&self.code).unwrap_or(ErrorCode::Internal);
        let error = DomainError::new(code, self.message.clone()).remedy(self.remediation.clone());
        let error = self.fields.iter().fold(error, |error, (name, value)| error.field(name.clone(), value.clone()));
        match &self.invariant {
            Some(id) => error.invariant(id.clone()),
            None => error,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
