//! `DatasetCommitment` version 1 (Lensemble data model section 9): what a participant's data set is bound to.

use super::time::time;
use crate::core::digest::DatasetRoot;
use crate::core::error::DomainError;
use crate::core::json::Fields;

/// Most bytes of an embodiment's id.
const MAX_ID: usize = 128;

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
        let merkle_root = fields.digest("merkle_root")?;
        let episode_count = fields.count("episode_count")?;
        if episode_count == 0 {
            return Err(fields.refuse("episode_count", "must be at least 1"));
        }
        if fields.string("hash_algorithm")? != "sha256" {
            return Err(fields.refuse("hash_algorithm", "must be sha256"));
        }
        let wmcp_version = fields.name("wmcp_version", 256)?;
        let embodiment_ids = fields.strings("embodiment_ids")?;
        if !embodiment_ids.iter().all(|id| is_embodiment(id)) {
            return Err(fields.refuse(
                "embodiment_ids",
                "must hold ids of 1 to 128 bytes: small letters, digits, '.', '_' and '-', a letter first",
            ));
        }
        if !embodiment_ids.is_sorted_by(|one, next| one < next) {
            return Err(fields.refuse("embodiment_ids", "must be sorted and name none twice"));
        }
        time(fields, "created_at")?;
        Ok(Self { merkle_root, episode_count, wmcp_version, embodiment_ids })
    }
}

/// Letters of any script, as Lensemble's own data has them; where a script has no small letters, all are.
fn is_embodiment(id: &str) -> bool {
    let letter = |c: char| c.is_alphabetic() && !c.is_uppercase();
    let legal = |c: char| letter(c) || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    id.len() <= MAX_ID && id.starts_with(letter) && id.chars().all(legal)
}
