//! Upload sessions: open, look, append, finish, give up.
#![expect(
    clippy::missing_errors_doc,
    reason = "a handler's comment is its text in the OpenAPI document, which lists the refusals"
)]

pub mod abort;
pub mod append;
pub mod create;
pub mod file;
pub mod finish;
pub mod get;
