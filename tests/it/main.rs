//! Tests through the outside of the crate: one binary, because linking is what costs.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::pedantic,
    reason = "a test that cannot go on fails there and then"
)]
#![expect(unreachable_pub, reason = "modules of a test are no interface")]

mod artifact;
mod audit_doc;
mod configs;
mod crash;
mod database;
mod errors_doc;
mod golden;
mod golden_http;
mod hashing;
mod history;
mod home;
mod hostile;
mod memory;
mod metrics;
mod openapi;
mod program;
mod properties;
mod reading;
mod registry;
mod runs;
mod runs_cli;
mod samples;
mod sessions;
mod stored;
mod support;
mod tidy;
mod transfer;
mod vectors;
mod wire;
