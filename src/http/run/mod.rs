//! One file for each endpoint of runs and rounds.

pub mod aborts;
pub mod audit;
pub mod commits;
pub mod create;
pub mod events;
pub mod get;
pub mod head;
pub mod ledger;
pub mod list;
pub mod resolve;
pub mod rounds;
