//! From the name of a round to the hash of what is wanted of it. The server says which hash that is; what is fetched
//! then has to have it.

use std::sync::Arc;

use super::error::{Error, Kind};
use super::progress::Progress;
use super::reference::Reference;
use super::run::RemoteRun;
use super::server::Server;
use crate::api::artifact::ParamRef;
use crate::api::problem::Problem;
use crate::core::digest::{ContentHash, GroupHash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::locator::Locator;
use crate::core::run::Name;

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// An artifact or a parameter group: whichever has this hash.
    Either(ContentHash),
    /// The checkpoint of this round.
    Checkpoint(ContentHash, u64),
    /// A parameter group.
    Group(GroupHash),
}

/// Where a reference has led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) aim: Aim,
    /// The group that is wanted, where one is named.
    pub(super) group: Option<String>,
    /// The round that was named.
    pub(super) round: Option<RoundOf>,
    /// H1, where the reference names a checkpoint and a group of it is wanted.
    pub(super) checkpoint: Option<ContentHash>,
}

/// A round of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundOf {
    /// The run.
    pub run: Name,
    /// The round.
    pub index: u64,
}

/// A round as it is described in two places: the head, and the list of rounds.
struct Described {
    index: u64,
    content_hash: String,
    theta: Option<ParamRef>,
    phi: Option<ParamRef>,
}

/// Finds what a reference names; `group` is the parameter group that is wanted of it, `run` the run of a locator that
/// does not name one.
pub(super) async fn find(
    server: &Server,
    reference: &Reference,
    (group, run): (Option<&str>, Option<&str>),
    progress: &Arc<dyn Progress>,
) -> Result<Found, Error> {
    match reference {
        Reference::Hash(hash) => Ok(of_hash(*hash, group)),
        Reference::Round { run: named, round } => {
            check_run(named, run)?;
            of_round(&RemoteRun::new(server, named.as_str(), progress)?, *round, group).await
        }
        Reference::Locator { text, locator } => match locator {
            Locator::Hash(hash) => {
                let group = group.map(str::to_owned);
                Ok(Found { aim: Aim::Group(*hash), group, round: None, checkpoint: None })
            }
            Locator::Artifact { content_hash, group: named } => {
                check_group(named, group)?;
                Ok(of_hash(*content_hash, Some(named)))
            }
            Locator::Round { scope, round, group: named } => {
                check_group(named, group)?;
                let run = match (scope, run) {
                    (Some((_, named)), run) => check_run(named, run).map(|()| named.as_str())?,
                    (None, Some(run)) => run,
                    (None, None) => return Err(no_run()),
                };
                let run = RemoteRun::new(server, run, progress)?;
                let resolved = run.resolve(text).await?;
                Ok(Found {
                    aim: Aim::Group(read(&resolved.content_hash)?),
                    group: Some((*named).to_owned()),
                    // As it was asked for: other rounds may have the same group.
                    round: Some(RoundOf { run: run.name().clone(), index: *round }),
                    checkpoint: None,
                })
            }
        },
    }
}

fn of_hash(hash: ContentHash, group: Option<&str>) -> Found {
    Found { aim: Aim::Either(hash), group: group.map(str::to_owned), round: None, checkpoint: None }
}

async fn of_round(run: &RemoteRun<'_>, round: Option<u64>, group: Option<&str>) -> Result<Found, Error> {
    let described = if let Some(index) = round {
        let round = run.round(index).await?;
        Described { index, content_hash: round.content_hash, theta: round.theta_ref, phi: round.phi_ref }
    } else {
        let head = run.head().await?;
        let (Some(index), Some(content_hash)) = (head.round_index, head.content_hash) else {
            return Err(no_round(run.name()));
        };
        Described { index, content_hash, theta: head.theta_ref, phi: head.phi_ref }
    };
    let hash: ContentHash = read(&described.content_hash)?;
    let (aim, checkpoint) = match group {
        None => (Aim::Checkpoint(hash, described.index), None),
        Some(group) => {
            let reference = if group == "encoder" { described.theta } else { described.phi };
            let reference = reference.ok_or_else(|| {
                let message = format!("round {} has no tensors in the group {group}", described.index);
                Error::usage(message, "Pull the whole checkpoint.")
            })?;
            (Aim::Group(read(&reference.content_hash)?), Some(hash))
        }
    };
    let round = RoundOf { run: run.name().clone(), index: described.index };
    Ok(Found { aim, group: group.map(str::to_owned), round: Some(round), checkpoint })
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(hash: &str) -> Result<T, Error> {
    hash.parse().map_err(|error| {
        Error::unavailable(format!("the server names a round by something else: {error}"), "Check its address.")
    })
}

fn check_run(named: &Name, run: Option<&str>) -> Result<(), Error> {
    if run.is_none_or(|run| run == named.as_str()) {
        return Ok(());
    }
    Err(Error::usage(format!("the reference names the run {named}, --run another one"), "Leave --run out."))
}

fn check_group(named: &str, group: Option<&str>) -> Result<(), Error> {
    if group.is_none_or(|group| group == named) {
        return Ok(());
    }
    Err(Error::usage(format!("the locator names the group {named}, --group another one"), "Leave --group out."))
}

fn no_run() -> Error {
    Error::usage(
        "this locator does not say which run it belongs to",
        "Name the run with --run, or write artifact://CONSORTIUM/RUN/round-00012/encoder.",
    )
}

fn no_round(run: &Name) -> Error {
    let error = DomainError::new(ErrorCode::RegistryNotFound, format!("the run {run} has no round yet"))
        .remedy("Wait until its coordinator has committed round 0.");
    Error::answered(Kind::Refused, Problem::new(&error, 404))
}
