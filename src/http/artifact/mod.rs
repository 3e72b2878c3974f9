//! Artifacts: take in whole, describe, verify, and give out their bytes.
#![expect(
    clippy::missing_errors_doc,
    reason = "a handler's comment is its text in the OpenAPI document, which lists the refusals"
)]

pub mod archive;
pub mod file;
pub mod get;
pub mod group;
pub mod header;
pub mod lineage;
pub mod params;
pub mod put;
pub mod tensor;
pub mod verify;
