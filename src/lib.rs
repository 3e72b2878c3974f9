//! cairn: a registry for federated training.
//!
//! Layers, from the inside out: [`core`] knows formats, hashes and rules and does no I/O; [`api`] is what travels over the wire.
#![forbid(unsafe_op_in_unsafe_fn)]

pub mod api;
#[cfg(feature = "client")]
pub mod client;
pub mod core;
