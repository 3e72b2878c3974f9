//! Tests through the outside of the crate: one binary, because linking is what costs.

mod artifact;
mod golden;
mod hashing;
mod program;
mod registry;
mod support;
mod transfer;
mod wire;
