//! Bytes. A blob lies under a random key that means nothing and is never renamed; a row elsewhere gives it meaning.
//!
//! Everything here blocks and belongs on a blocking thread.

pub mod key;
pub mod local;
pub mod staged;

pub use key::BlobKey;
pub use local::{LocalBlobs, Stamp};
pub use staged::StagedBlob;
