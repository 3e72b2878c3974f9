//! One file for each endpoint of runs and rounds.
#![expect(
    clippy::missing_errors_doc,
    reason = "a handler's comment is its text in the OpenAPI document, which lists the refusals"
)]

pub mod aborts;
pub mod commits;
pub mod create;
pub mod events;
pub mod get;
pub mod head;
pub mod ledger;
pub mod list;
pub mod resolve;
pub mod rounds;
