//! The documents that lie beside the rounds of a run: what each kind is, and the checks that need only its bytes.
//!
//! The version is read first, then the fields; unknown kinds, unknown fields and unknown versions are refused. The
//! bytes of a document are kept as they came; what is read from them here is a view.
//!
//! Reading order: [`kind`] (the table), [`migrate`], [`residency`] (what must never be in one), [`config`] (the hash of
//! what a run is configured with), then one file for each kind.

pub mod kind;
pub mod migrate;
pub mod residency;

pub mod commitment;
pub mod config;
pub mod contribution;
pub mod evidence;
pub mod probe;
pub mod report;
pub mod round_message;
pub mod run_manifest;

mod time;

pub use kind::{Document, Kind};

#[cfg(test)]
mod tests;
