//! The wire: paths, documents and headers that server and client share, and nothing of how either works.

pub mod artifact;
pub mod audit;
pub mod problem;
pub mod range;
pub mod route;
pub mod run;
pub mod upload;
