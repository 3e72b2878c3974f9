//! DatasetCommitment version 1 (Lensemble data model section 9): what a participant's data set is bound to.

use crate::core::digest::DatasetRoot;
use crate::core::error::DomainError;
use crate::core::json::Fields;

/// What a participant's data set is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetCommitment {
    /// Root of the Merkle tree over the episodes.
    pub merkle_root: DatasetRoot,
    /// How many episodes there are; the root does not commit to it.
    pub episode_count: u64,
    /// The contract version that the episodes follow.
    pub wmcp_version: String,
    /// The embodiments in the data, sorted.
    pub embodiment_ids: Vec<String>,
}

impl DatasetCommitment {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        Ok(Self {
            merkle_root: fields.digest("merkle_root")?,
            episode_count: fields.count("episode_count")?,
            wmcp_version: fields.name("wmcp_version", 256)?,
            embodiment_ids: fields.strings("embodiment_ids")?,
        })
    }
}
