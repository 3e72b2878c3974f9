//! JSON as strangers send it and as Python's programs hash it.
//!
//! Reading order: [`strict`] (what serde leaves open), [`value`] (a document with exact numbers), [`fields`] (its typed
//! fields, none unknown), [`canonical`] (the bytes that are hashed).

pub mod canonical;
pub mod fields;
pub mod strict;
#[cfg(test)]
mod tests;
pub mod value;

pub use canonical::{Dialect, write_ascii_string};
pub use fields::Fields;
pub use strict::{Object, explain, schema_version};
pub use value::Value;
