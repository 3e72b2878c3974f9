//! Tests through the outside of the crate: one binary, because linking is what costs.
#![expect(clippy::unwrap_used, clippy::pedantic, reason = "a test that cannot go on fails there and then")]

mod artifact;
mod configs;
mod errors_doc;
mod golden;
mod golden_http;
mod hashing;
mod openapi;
mod program;
mod reading;
mod registry;
mod sessions;
mod support;
mod transfer;
mod vectors;
mod wire;
