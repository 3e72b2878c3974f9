//! The client: reads and verifies artifact directories, and sends them.
//!
//! In reading order: what goes wrong ([`error`]) and what is told meanwhile ([`progress`]); a directory on disk
//! ([`directory`], on top of `scan`); the server as seen from here ([`server`], `retry`); the operation ([`push`] with
//! `feed`, `session` and `memory`); `lock` and `offload` serve it.

pub mod error;
pub mod progress;

pub mod directory;
mod scan;

mod retry;
pub mod server;

mod feed;
mod lock;
mod memory;
mod offload;
pub mod push;
mod session;
