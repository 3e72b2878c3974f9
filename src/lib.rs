//! cairn: a registry for federated training.
//!
//! Layers, from the inside out: [`core`] knows formats, hashes and rules and does no I/O; [`api`] is what travels over
//! the wire; `store` keeps rows and bytes; `service` is what the registry does; `http` speaks HTTP; `client` reads,
//! sends and fetches artifacts; `cli` is the program.

pub mod api;
pub mod core;

#[cfg(feature = "program")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
pub mod http;
#[cfg(feature = "server")]
pub mod service;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod telemetry;
