//! What is checked for somebody and not kept: ledgers, proofs, configurations.

use bytes::Bytes;

use super::error::ServiceError;
use super::registry::Registry;
use crate::api::run::{ConfigHashAnswer, LedgerVerdict, ProofVerdict};
use crate::core::digest::RecordHash;
use crate::core::document::config::{config_hash, parse_config};
use crate::core::document::contribution::check_ledger;
use crate::core::merkle::ProofRequest;

/// Bytes of a ledger file.
pub const LARGEST_LEDGER: u64 = 64 << 20;

impl Registry {
    /// Tells whether a ledger's chain holds, and ends where it is expected to.
    ///
    /// # Errors
    /// When a line is no record.
    pub async fn verify_ledger(&self, text: Bytes, head: Option<RecordHash>) -> Result<LedgerVerdict, ServiceError> {
        match tokio::task::spawn_blocking(move || check_ledger(&text, head)).await? {
            Ok(ledger) => Ok(LedgerVerdict {
                verify_chain: ledger.intact,
                records: ledger.records.len() as u64,
                head: ledger.head.map(|head| head.to_string()),
                broken_at: ledger.broken_at.map(|line| line as u64),
            }),
            Err(error) => {
                self.witness(&error, None).await;
                Err(error.into())
            }
        }
    }

    /// Tells whether an episode is under a data set's root.
    ///
    /// # Errors
    /// When this is no proof.
    pub async fn verify_proof(&self, text: &[u8]) -> Result<ProofVerdict, ServiceError> {
        match ProofRequest::parse(text).and_then(|request| request.verify()) {
            Ok(included) => Ok(ProofVerdict { included }),
            Err(error) => {
                self.witness(&error, None).await;
                Err(error.into())
            }
        }
    }

    /// Hashes a configuration as Lensemble does.
    ///
    /// # Errors
    /// When this is no configuration.
    pub async fn hash_config(&self, text: Bytes) -> Result<ConfigHashAnswer, ServiceError> {
        let hash =
            tokio::task::spawn_blocking(move || parse_config(&text).map(|config| config_hash(&config))).await??;
        Ok(ConfigHashAnswer { config_hash: hash.to_string() })
    }
}
