//! Tests through the outside of the crate: one binary, because linking is what costs.

mod golden;
mod hashing;
mod program;
mod support;
