//! cli
pub mod serve;
