//! Upload sessions: open, look, append, finish, give up.

pub mod abort;
pub mod append;
pub mod create;
pub mod file;
pub mod finish;
pub mod get;
