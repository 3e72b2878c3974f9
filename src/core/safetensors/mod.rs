//! The safetensors container, read strictly: `u64` length, JSON text, element bytes without a gap.
//!
//! The `safetensors` crate wants a whole file in memory and lets through duplicate keys and unknown fields, so the
//! container is read here; the crate stays the oracle of the tests.

pub mod decoder;
pub mod dtype;
pub mod header;
