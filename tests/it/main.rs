//! Tests through the outside of the crate: one binary, because linking is what costs.
#![expect(clippy::unwrap_used, clippy::pedantic, reason = "a test that cannot go on fails there and then")]

mod artifact;
mod configs;
mod errors_doc;
mod golden;
mod hashing;
mod openapi;
mod program;
mod registry;
mod support;
mod transfer;
mod wire;
