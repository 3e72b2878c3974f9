//! What cairn knows: formats, hashes and rules. No I/O, no clock, no randomness, no async.
//!
//! In reading order: the words ([`digest`], [`error`], [`limits`]), what arrives ([`sniff`], [`safetensors`],
//! [`checkpoint`], [`tar`]), how it is hashed ([`sha256`], [`recipe`], [`canonical`]) and the machine that
//! joins them while bytes come in ([`intake`]). Then what rounds are made of: [`run`], [`document`], [`merkle`], [`seed`],
//! [`locator`], and the rules that join them, [`lineage`] and [`audit`].

pub mod digest;
pub mod error;
pub mod limits;

pub mod json;
pub mod sniff;

pub mod checkpoint;
pub mod safetensors;
pub mod shards;
pub mod tar;

pub mod canonical;
pub mod recipe;
pub mod sha256;
pub mod walk;

pub mod intake;

pub mod document;
pub mod merkle;
pub mod run;
pub mod seed;

pub mod audit;
pub mod lineage;
pub mod locator;

#[cfg(test)]
pub(crate) mod tests;
