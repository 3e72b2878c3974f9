//! HTTP: translation between requests and what the registry does, and nothing else.
//!
//! Reading order: [`mod@router`] (every route), one file for each endpoint under [`artifact`], [`upload`], [`run`] and
//! [`document`],
//! [`problem`] (the one way in which a refusal becomes an answer), [`bytes`] (the one way in which bytes do), [`stored`] (the answer to an upload),
//! [`conn`] (sockets).

pub mod artifact;
pub mod bytes;
pub mod conn;
pub mod docs;
pub mod document;
pub mod extract;
pub mod health;
pub mod layer;
pub mod openapi;
pub mod problem;
pub mod router;
pub mod run;
pub mod stored;
pub mod upload;

pub use router::router;
