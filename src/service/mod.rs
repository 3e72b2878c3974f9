//! What the registry does. One file is one thing that a user would name; none of them calls another.
//!
//! Reading order: [`registry`] (what they all share), [`receive`] (bytes on their way to the disk), then
//! [`upload`], [`put`] and [`finish`] (taking in), [`lookup`] and [`fetch`] (giving out), [`verify`] and [`sweep`].

pub mod error;
pub mod registry;

pub mod receive;
pub mod session;

pub mod finish;
pub mod put;
pub mod upload;

pub mod fetch;
pub mod lookup;
pub mod verify;

pub mod sweep;

pub use error::ServiceError;
pub use registry::{Options, Registry};
