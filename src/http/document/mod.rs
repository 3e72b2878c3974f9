//! One file for each endpoint of documents, and of what is checked without being kept.
#![expect(
    clippy::missing_errors_doc,
    reason = "a handler's comment is its text in the OpenAPI document, which lists the refusals"
)]

pub mod check;
pub mod commitments;
pub mod get;
pub mod keep;
pub mod list;
