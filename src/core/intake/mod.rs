//! The machine that checks and hashes an artifact while its files arrive, in any order and any cut.
//!
//! Every digest is a walk along a recipe. Bytes that arrive when a walk stands right there are hashed at once; bytes
//! that arrive too early are only remembered by their place, and the walk asks for them again once the files are
//! stored ([`Intake::pending`]). For an artifact in canonical order nothing is ever read again.
//!
//! [`Verified`] can be made only here, after every promise of the header has been kept.
//!
//! Reading order: [`mod@file`] (one file as it arrives), [`artifact`] (what its files share),
//! [`scan`] (files at hand, one after the other).

pub mod artifact;
pub mod file;
pub mod scan;

pub use artifact::{Intake, Verified, VerifiedFile, VerifiedGroup, hash_mismatch};
pub use file::FileIntake;
