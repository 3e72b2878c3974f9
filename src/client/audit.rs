//! The audit of a run, computed here from what is downloaded: the server's own opinion is not asked for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::Method;

use super::error::{Error, Kind};
use super::progress::{Phase, Progress, Silent};
use super::pull::pull;
use super::reference::Reference;
use super::retry::{Trouble, patiently};
use super::run::RemoteRun;
use super::server::Server;
use crate::api::artifact::Artifact;
use crate::api::audit::Audit;
use crate::api::route;
use crate::api::run::{Commitments, Head, NewRun, Round, Rounds, Run};
use crate::core::audit::{
    ArtifactFacts, AuditCode, Auditor, CommitmentFacts, FileFacts, Finding, LedgerFacts, Presence, Report, RoundFacts,
    RunFacts, Tier,
};
use crate::core::checkpoint::Links;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::document::Kind as Document;
use crate::core::run::{Name, Pins};

/// Rounds that are asked for at the same time.
const AT_ONCE: usize = 16;

/// Rounds on one page.
const PAGE: u32 = 1000;

/// The longest header or document.
const LARGEST: usize = 16 << 20;

/// The longest line of a ledger: 4,096 participants with long names.
const LONGEST_LINE: usize = 16 << 20;

/// Audits a run.
///
/// # Errors
/// When the server cannot be reached or there is no such run; everything else is a finding.
pub async fn audit(server: &Server, run: &str, tier: Tier, progress: &Arc<dyn Progress>) -> Result<Audit, Error> {
    let name: Name = run.parse().map_err(|not| Error::usage(format!("{run:?} is no run: {not}"), "Check the name."))?;
    let auditing = Auditing { server, run: name, tier, progress };
    let report = auditing.report().await?;
    let by = format!("computed here from what {} sent", server.base().origin().ascii_serialization());
    Ok(Audit::new(run, tier, &report, &by))
}

struct Auditing<'a> {
    server: &'a Server,
    run: Name,
    tier: Tier,
    progress: &'a Arc<dyn Progress>,
}

impl Auditing<'_> {
    async fn report(&self) -> Result<Report, Error> {
        let run: Run = self.get(&route::run(self.run.as_str())).await?;
        // What is committed from here on is not part of this audit.
        let head: Head = self.get(&self.part("head")).await?;
        // Pins that no registration could have had.
        let Ok(pins) = pins(run) else { return Ok(Report::unreadable("pins of the run")) };
        let facts = RunFacts {
            pins,
            head: match (head.round_index, &head.content_hash) {
                (Some(round), Some(hash)) => Some((round, parse(hash)?)),
                _ => None,
            },
            ledger_tail: head.ledger_tail.as_deref().map(parse).transpose()?,
            ledger_count: head.ledger_count,
            ledger_round: head.ledger_round,
            event_seq: None,
            aborts: 0,
            tier: self.tier,
        };
        let mut auditor = Auditor::new(facts);
        let aborts = self.aborts(&mut auditor).await?;
        let rounds = self.rounds(head.round_index).await?;
        self.progress.begin(Phase::Audit, rounds.len() as u64, 0);
        let found = stream::iter(&rounds).map(|round| self.round(round, &aborts)).buffered(AT_ONCE);
        let mut found = std::pin::pin!(found);
        let mut done = 0;
        while let Some(facts) = found.try_next().await? {
            auditor.round(&facts);
            done += 1;
            self.progress.at(done);
        }
        self.commitments(&mut auditor).await?;
        self.ledger(&mut auditor, head.ledger_count).await?;
        Ok(auditor.finish())
    }

    fn part(&self, part: &str) -> String {
        route::of_run(self.run.as_str(), part)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let url = self.server.url(path);
        patiently(&**self.progress, async || self.server.get(url.clone()).await).await
    }

    /// A small body; `None` when it is not there, an error of kind integrity when it is damaged.
    async fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let url = self.server.url(path);
        let asked = patiently(&**self.progress, async || {
            let answer = self.server.ask(self.server.request(Method::GET, url.clone())).await?;
            self.server.body(answer, LARGEST).await
        });
        absent(asked.await)
    }

    async fn aborts(&self, auditor: &mut Auditor) -> Result<BTreeMap<u64, u64>, Error> {
        let told = RemoteRun::new(self.server, self.run.as_str(), self.progress)?.aborts(0).await?;
        let mut aborts = BTreeMap::new();
        for abort in told {
            *aborts.entry(abort.round_index).or_insert(0) += 1;
        }
        for (round, count) in &aborts {
            auditor.find(Finding {
                code: AuditCode::RoundAborted,
                round_index: Some(*round),
                expected: None,
                found: Some(count.to_string()),
                place: "aborts".to_owned(),
            });
        }
        Ok(aborts)
    }

    /// The rounds up to the head, oldest first.
    async fn rounds(&self, head: Option<u64>) -> Result<Vec<Round>, Error> {
        let Some(head) = head else { return Ok(Vec::new()) };
        let mut rounds = Vec::new();
        let mut cursor = Some((head + 1).to_string());
        while let Some(at) = cursor {
            let mut url = self.server.url(&self.part("rounds"));
            url.query_pairs_mut().append_pair("limit", &PAGE.to_string()).append_pair("cursor", &at);
            let page: Rounds = patiently(&**self.progress, async || self.server.get(url.clone()).await).await?;
            cursor = page.next_cursor;
            if page.rounds.is_empty() || rounds.len() as u64 > head {
                break;
            }
            rounds.extend(page.rounds);
        }
        rounds.reverse();
        Ok(rounds)
    }

    async fn round(&self, round: &Round, aborts: &BTreeMap<u64, u64>) -> Result<RoundFacts, Error> {
        let hash: ContentHash = parse(&round.content_hash)?;
        let url = self.server.url(&route::artifact(hash));
        let artifact = patiently(&**self.progress, async || self.server.get::<Artifact>(url.clone()).await);
        let header_path = route::header(hash);
        let header = self.bytes(&header_path);
        let (artifact, header) = tokio::join!(artifact, header);
        let (header, _) = damaged(header)?;
        let (artifact, broken) = damaged(absent(artifact))?;
        let header = header.flatten().map(|text| (BlobDigest::of(&text), Links::parse(&text)));
        let header_digest = match &artifact {
            Some(Some(artifact)) => Some(parse(&artifact.header.sha256)?),
            _ => None,
        };
        let artifact = match artifact.flatten() {
            Some(artifact) => Some(self.artifact(hash, &artifact).await?),
            None if broken => Some(unreadable(round)?),
            None => None,
        };
        Ok(RoundFacts {
            round_index: round.round_index,
            content_hash: hash,
            parent_hash: round.parent_hash.as_deref().map(parse).transpose()?,
            header_digest,
            theta: round.theta_ref.as_ref().map(|theta| parse(&theta.content_hash)).transpose()?,
            phi: round.phi_ref.as_ref().map(|phi| parse(&phi.content_hash)).transpose()?,
            size: round.size,
            attempt: round.attempt,
            committed_at: None,
            aborts: round.round_index.checked_sub(1).and_then(|trained| aborts.get(&trained)).copied().unwrap_or(0),
            header,
            artifact,
        })
    }

    async fn artifact(&self, hash: ContentHash, artifact: &Artifact) -> Result<ArtifactFacts, Error> {
        let recomputed = if self.tier == Tier::Deep { Some(self.recompute(hash).await?) } else { None };
        let mut files = Vec::with_capacity(artifact.files.len());
        for file in &artifact.files {
            files.push(FileFacts {
                name: file.name.clone(),
                digest: parse(&file.blob_hash)?,
                size: file.size,
                presence: self.presence(hash, &file.name).await?,
            });
        }
        let group = |name: &str| artifact.groups.iter().find(|group| group.name == name);
        Ok(ArtifactFacts {
            round_index: artifact.header.round_index,
            parent_hash: artifact.parent_hash.as_deref().map(parse).transpose()?,
            header_digest: None,
            size: artifact.size,
            theta: group("encoder").map(|group| parse(&group.group_hash)).transpose()?,
            phi: group("predictor").map(|group| parse(&group.group_hash)).transpose()?,
            files,
            recomputed,
            diverging: Vec::new(),
        })
    }

    /// Whether the server gives a file out, and how long it says that it is.
    async fn presence(&self, hash: ContentHash, name: &str) -> Result<Presence, Error> {
        let url = self.server.url(&route::file(hash, name));
        let asked = patiently(&**self.progress, async || {
            let answer = self.server.ask(self.server.request(Method::HEAD, url.clone())).await?;
            let size = answer.headers().get(route::LINKED_SIZE).and_then(|size| size.to_str().ok()?.parse().ok());
            size.ok_or_else(|| {
                Trouble::from(Error::unavailable("the server does not say how long a file is", "Check the proxies."))
            })
        });
        let (size, broken) = damaged(absent(asked.await))?;
        Ok(match size.flatten() {
            Some(size) => Presence::Size(size),
            None if broken => Presence::Damaged,
            None => Presence::Missing,
        })
    }

    /// Fetches the whole artifact, verified while it arrives, and drops it again.
    async fn recompute(&self, hash: ContentHash) -> Result<bool, Error> {
        let place: PathBuf =
            std::env::temp_dir().join(format!("cairn-audit-{}-{}", std::process::id(), &hash.to_string()[..16]));
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        let pulled = pull(self.server, &Reference::Hash(hash), &place, (None, None), &silent).await;
        let removed = tokio::task::spawn_blocking({
            let place = place.clone();
            move || std::fs::remove_dir_all(place)
        });
        // What was never made cannot be removed.
        let _ = removed.await;
        match pulled {
            Ok(_) => Ok(true),
            Err(error) if error.is_verdict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn commitments(&self, auditor: &mut Auditor) -> Result<(), Error> {
        let told: Commitments = self.get(&self.part("commitments")).await?;
        for held in told.commitments {
            let path = route::document(self.run.as_str(), Document::DatasetCommitment.name(), &held.digest);
            let (document, _) = damaged(self.bytes(&path).await)?;
            auditor.commitment(&CommitmentFacts {
                participant: held.participant,
                from_round: held.from_round,
                root: parse(&held.merkle_root)?,
                digest: parse(&held.digest)?,
                received_at: None,
                document: document.flatten(),
            });
        }
        Ok(())
    }

    /// The first `count` lines of the ledger; more were not there when the audit began.
    async fn ledger(&self, auditor: &mut Auditor, count: u64) -> Result<(), Error> {
        let url = self.server.url(&self.part("ledger"));
        let mut answer =
            patiently(&**self.progress, async || self.server.ask(self.server.request(Method::GET, url.clone())).await)
                .await?;
        let (mut line, mut left) = (Vec::new(), count);
        while let Some(chunk) = self.server.chunk(&mut answer).await.map_err(Trouble::into_error)? {
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.len() > LONGEST_LINE {
                    return Err(Error::unavailable("a line of the ledger is too long", "Check the server's address."));
                }
                if line.last() == Some(&b'\n') && left > 0 {
                    left -= 1;
                    let text = String::from_utf8_lossy(&line[..line.len() - 1]).into_owned();
                    auditor.record(&LedgerFacts {
                        line: text,
                        record_hash: None,
                        round_index: None,
                        prev_record_hash: None,
                        global_model_hash: None,
                    });
                    line.clear();
                } else if line.last() == Some(&b'\n') {
                    line.clear();
                }
            }
        }
        Ok(())
    }
}

/// The pins as the rules know them.
fn pins(run: Run) -> Result<Pins, Error> {
    let told = NewRun {
        run: run.run,
        consortium: run.consortium,
        wmcp_version: run.wmcp_version,
        probe_hash: run.probe_hash,
        probe_version: run.probe_version,
        config_hash: run.config_hash,
        warm_start: run.warm_start,
        participants: run.participants,
        min_participants: run.min_participants,
        visibility: Some(run.visibility),
    };
    Ok(Pins::parse(&serde_json::to_vec(&told).unwrap_or_default())?)
}

/// An artifact that the server will not show because its bytes are damaged.
fn unreadable(round: &Round) -> Result<ArtifactFacts, Error> {
    Ok(ArtifactFacts {
        round_index: round.round_index,
        parent_hash: round.parent_hash.as_deref().map(parse).transpose()?,
        header_digest: None,
        size: round.size,
        theta: round.theta_ref.as_ref().map(|theta| parse(&theta.content_hash)).transpose()?,
        phi: round.phi_ref.as_ref().map(|phi| parse(&phi.content_hash)).transpose()?,
        files: vec![FileFacts {
            name: "stored files".to_owned(),
            digest: BlobDigest::from_bytes([0; 32]),
            size: round.size,
            presence: Presence::Damaged,
        }],
        recomputed: None,
        diverging: Vec::new(),
    })
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::unavailable("the answer is not what a cairn server answers", "Check its address."))
}

/// 404 is an answer here.
fn absent<T>(asked: Result<T, Error>) -> Result<Option<T>, Error> {
    match asked {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.problem().status == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Damage that the server reports is a finding, and so an answer as well; true when there is some.
fn damaged<T>(asked: Result<T, Error>) -> Result<(Option<T>, bool), Error> {
    match asked {
        Ok(answer) => Ok((Some(answer), false)),
        Err(error) if error.kind() == Kind::Integrity => Ok((None, true)),
        Err(error) => Err(error),
    }
}
