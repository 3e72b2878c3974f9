//! One file for each endpoint of documents, and of what is checked without being kept.

pub mod check;
pub mod commitments;
pub mod get;
pub mod keep;
pub mod list;
