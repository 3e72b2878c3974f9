//! Where a locator leads.

use super::error::ServiceError;
use super::registry::Registry;
use super::run::{ENCODER, PREDICTOR};
use crate::api::route;
use crate::api::run::Resolved;
use crate::core::digest::{ContentHash, GroupHash};
use crate::core::error::DomainError;
use crate::core::locator::{Locator, mint};
use crate::core::run::Name;
use crate::store::meta::run::RunRow;

impl Registry {
    /// Where a locator leads; a hash beside it decides.
    ///
    /// # Errors
    /// `checkpoint_integrity` when the locator leads to another group than the hash names.
    pub async fn resolve(
        &self,
        name: &Name,
        locator: Option<&str>,
        hash: Option<GroupHash>,
    ) -> Result<Resolved, ServiceError> {
        let row = self.run_row(name).await?;
        // The place that the locator names, for the answer to speak of the same one.
        let mut place = None;
        let pointed = match locator.map(Locator::parse).transpose()? {
            None => None,
            Some(Locator::Hash(pointed)) => Some(pointed),
            Some(Locator::Artifact { content_hash, group }) => self.group_of(content_hash, group).await?,
            Some(Locator::Round { scope, round, group }) => {
                let here = scope.is_none_or(|(consortium, run)| run == *name && consortium == row.pins.consortium);
                let round = if here { self.meta.round(name, round).await? } else { None };
                place = round.as_ref().map(|round| (round.round_index, round.content_hash, group));
                round.and_then(|round| if group == ENCODER { round.theta } else { round.phi })
            }
        };
        let wanted = match (hash, pointed) {
            (Some(hash), Some(pointed)) if hash != pointed => {
                let error = DomainError::integrity("the locator leads to another group than the hash beside it names")
                    .field("expected_hash", hash.to_string())
                    .field("got_hash", pointed.to_string())
                    .remedy("Trust the hash: ask with it alone, and find out who wrote the pair.");
                self.witness(&error, None).await;
                return Err(ServiceError::Conflict(error));
            }
            (Some(hash), _) => hash,
            (None, Some(pointed)) => pointed,
            (None, None) => return Err(ServiceError::not_found("the group that the locator names")),
        };
        self.resolved(&row, wanted, place.filter(|_| pointed.is_some())).await
    }

    async fn group_of(&self, artifact: ContentHash, group: &str) -> Result<Option<GroupHash>, ServiceError> {
        let row = self.meta.artifact(artifact).await?;
        Ok(row.and_then(|row| row.groups.into_iter().find(|held| held.name == group)).map(|group| group.digest))
    }

    async fn resolved(
        &self,
        row: &RunRow,
        hash: GroupHash,
        place: Option<(u64, ContentHash, &'static str)>,
    ) -> Result<Resolved, ServiceError> {
        let place =
            match place {
                Some(place) => Some(place),
                None => self.meta.round_of_group(&row.pins.run, hash).await?.map(|(round, artifact, is_encoder)| {
                    (round, artifact, if is_encoder { ENCODER } else { PREDICTOR })
                }),
            };
        let (artifact, group) = if let Some((_, artifact, group)) = place {
            (artifact, group.to_owned())
        } else {
            let holder = self.meta.group_holders(hash).await?.into_iter().next();
            holder.ok_or_else(|| ServiceError::not_found("a parameter group with this hash"))?
        };
        Ok(Resolved {
            content_hash: hash.to_string(),
            locator: match place {
                Some((round, ..)) => mint(&row.pins.consortium, &row.pins.run, round, &group),
                None => format!("artifact://sha256/{hash}"),
            },
            round_index: place.map(|(round, ..)| round),
            artifact: artifact.to_string(),
            url: route::params(hash),
            group,
        })
    }
}
