//! The client: reads and verifies artifact directories.
//!
//! In reading order: what goes wrong ([`error`]) and what is told meanwhile ([`progress`]); a directory on disk
//! ([`directory`], on top of `scan`).

pub mod error;
pub mod progress;

pub mod directory;
mod scan;
