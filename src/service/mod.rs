//! What the registry does. One file is one thing that a user would name; none of them calls another.
//!
//! Reading order: [`registry`] and [`metrics`] (what they all share), [`session`] (an upload in memory) and [`receive`] (bytes on
//! their way to the disk), [`upload`], [`put`] and [`finish`] (taking in), [`lookup`], [`shelf`] (stored files, open
//! and known to be right) and [`fetch`] (giving out), [`verify`] and [`sweep`]. Then what rounds are made of:
//! [`run`], [`resolve`], [`commit`], [`document`], [`probe`], [`check`], [`ledger`], [`news`], [`audit`].

pub mod error;
pub mod metrics;
pub mod registry;

pub mod receive;
pub mod session;

pub mod finish;
pub mod put;
pub mod upload;

pub mod lookup;

mod layout;
pub mod shelf;

pub mod fetch;
pub mod verify;

pub mod sweep;

pub mod audit;
pub mod check;
pub mod commit;
mod database;
pub mod document;
pub mod ledger;
pub mod news;
pub mod probe;
pub mod resolve;
pub mod run;

pub use database::{DATABASES, Database};
pub use error::ServiceError;
pub use registry::{Options, Registry};
