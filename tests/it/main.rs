//! The integration tests, in one program: linking is what costs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it stands")]
#![expect(unreachable_pub, reason = "modules of a test are no interface")]

mod configs;
mod database;
mod errors_doc;
mod openapi;
mod properties;
mod samples;
mod stored;
mod tidy;
