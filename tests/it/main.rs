//! The integration tests, in one program: linking is what costs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it stands")]

mod configs;
mod errors_doc;
mod openapi;
