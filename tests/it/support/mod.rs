//! What the tests share: servers, checkpoints made independently of the program, clients polite and rude.

pub mod archive;
pub mod checkpoint;
pub mod client;
pub mod data;
pub mod events;
pub mod federation;
pub mod generated;
pub mod golden;
pub mod history;
pub mod postgres;
pub mod process;
pub mod raw;
pub mod rng;
pub mod server;
pub mod wait;
