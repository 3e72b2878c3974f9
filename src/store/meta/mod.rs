//! Rows. Reading order: [`backend`] (connections and transactions), [`sql`] (every statement), then one file for each
//! aggregate: [`artifact`], [`upload`], [`publish`] (from the one to the other), [`run`], [`commit`] (the one
//! transaction that makes a round), [`ledger`], [`news`], [`document`], [`audit`], [`stock`].

pub mod artifact;
pub mod audit;
pub mod backend;
pub mod commit;
pub mod document;
pub mod error;
pub mod ledger;
pub mod news;
pub mod publish;
pub mod run;
pub mod sql;
pub mod stock;
pub mod upload;

pub use backend::MetaStore;
pub use error::StoreError;
