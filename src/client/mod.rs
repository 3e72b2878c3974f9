//! The client: reads and verifies artifact directories, sends them and fetches them.
//!
//! In reading order: what goes wrong ([`error`]) and what is told meanwhile ([`progress`]); a directory on disk
//! ([`directory`]); the server as seen from here ([`server`], `retry`); the two operations
//! ([`push`] with `feed`, `session` and `memory`; [`pull`] with `download`, `group`, `fetch` and `staging`);
//! `lock` and `offload` serve both. Runs ([`run`], [`commit`], [`document`], `wait`) stand beside them, and `resolve`
//! leads from the name of a round to the hash that [`pull`] fetches. [`audit`] checks a whole history.

pub mod audit;
pub mod error;
pub mod progress;

pub mod directory;

mod retry;
pub mod server;

mod feed;
mod lock;
mod memory;
mod offload;
pub mod push;
mod session;

pub mod commit;
pub mod document;
pub mod run;
mod wait;

mod download;
mod fetch;
mod group;
pub mod pull;
pub mod reference;
mod resolve;
mod staging;
