//! Rows. Reading order: [`backend`] (connections and transactions), [`sql`] (every statement), then one file for each
//! aggregate: [`artifact`], [`upload`], [`publish`] (from the one to the other), [`audit`].

pub mod artifact;
pub mod audit;
pub mod backend;
pub mod error;
pub mod publish;
pub mod sql;
pub mod upload;

pub use backend::MetaStore;
pub use error::StoreError;
