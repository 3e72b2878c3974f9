//! Where things are kept: rows in [`meta`], bytes in [`blob`]. The two do not know each other.

pub mod blob;
pub(crate) mod crash;
pub mod meta;
