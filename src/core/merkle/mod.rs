//! The Merkle tree over a data set's episodes (Lensemble RFC-0014 section 5).
//!
//! Every hash is SHA-256 behind one byte that says what is hashed:
//!
//! ```text
//! episode = H(00, canonical bytes)      node = H(02, left, right)
//! leaf    = H(01, episode)              root = H(03, top node)
//! ```
//!
//! Leaves are sorted by their bytes, so the root stands for a multiset: neither their order nor their number is bound.
//! A node without a partner goes up one level as it is and leaves no entry in a proof.
//!
//! A node of the tree looks like a leaf to whoever is given digests only. So [`Proof::verify`] takes either the
//! episode's digest and makes the leaf itself, or a leaf and the number of episodes, which must come from somebody
//! else than the prover; the path must then be one that a tree of so many leaves has.

#[cfg(test)]
mod tests;

use super::digest::{DatasetRoot, EpisodeDigest, LeafDigest, Sha256Hash};
use super::error::{DomainError, ErrorCode};
use super::json::{Fields, Value};
use super::sha256::Sha256;

const EPISODE: u8 = 0;
const LEAF: u8 = 1;
const NODE: u8 = 2;
const ROOT: u8 = 3;

/// Most levels of a proof: more than any count of 64 bits needs.
const MAX_LEVELS: usize = 64;

fn tagged(tag: u8, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(&[tag]);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

fn node(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    tagged(NODE, &[left, right])
}

/// The digest of an episode's canonical bytes.
#[must_use]
pub fn episode(canonical: &[u8]) -> EpisodeDigest {
    EpisodeDigest::from_bytes(tagged(EPISODE, &[canonical]))
}

/// The leaf that stands for an episode.
#[must_use]
pub fn leaf(episode: &EpisodeDigest) -> LeafDigest {
    LeafDigest::from_bytes(tagged(LEAF, &[episode.as_bytes()]))
}

/// The root over leaves in any order.
///
/// # Errors
/// `provenance_failed` when there are none.
pub fn root(leaves: &[LeafDigest]) -> Result<DatasetRoot, DomainError> {
    let mut level = sorted(leaves).into_iter().map(|(_, leaf)| *leaf.as_bytes()).collect::<Vec<_>>();
    while level.len() > 1 {
        level = above(&level);
    }
    let top = level.first().ok_or_else(|| without_leaf("a data set without an episode has no root"))?;
    Ok(seal(top))
}

fn seal(top: &[u8; 32]) -> DatasetRoot {
    DatasetRoot::from_bytes(tagged(ROOT, &[top]))
}

/// Leaves by their bytes, each with its place in the given order; equal ones stay in that order.
fn sorted(leaves: &[LeafDigest]) -> Vec<(usize, LeafDigest)> {
    let mut sorted: Vec<_> = leaves.iter().copied().enumerate().collect();
    sorted.sort_by_key(|(_, leaf)| *leaf);
    sorted
}

fn above(level: &[[u8; 32]]) -> Vec<[u8; 32]> {
    level
        .chunks(2)
        .map(|pair| match pair {
            [left, right] => node(left, right),
            other => other[0],
        })
        .collect()
}

fn without_leaf(message: &str) -> DomainError {
    DomainError::new(ErrorCode::ProvenanceFailed, message).remedy("Commit to a data set of at least one episode.")
}

/// The way from a leaf to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The partner on each level that has one, from the leaf upwards.
    pub siblings: Vec<Sha256Hash>,
    /// Whether that partner is on the left.
    pub path_bits: Vec<bool>,
}

/// What a proof is to show the membership of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// An episode.
    Episode(EpisodeDigest),
    /// A leaf of a tree of so many; the number must not come from the prover.
    Leaf {
        /// The leaf.
        leaf: LeafDigest,
        /// How many leaves the tree has.
        episode_count: u64,
    },
}

/// The proof for one of `leaves`, which are in any order; `index` is its place in it.
///
/// # Errors
/// `provenance_failed` when there is no such leaf.
pub fn prove(leaves: &[LeafDigest], index: usize) -> Result<Proof, DomainError> {
    let sorted = sorted(leaves);
    let mut at = sorted
        .iter()
        .position(|(place, _)| *place == index)
        .ok_or_else(|| without_leaf("the data set has no episode with this index").field("index", index))?;
    let mut level: Vec<_> = sorted.into_iter().map(|(_, leaf)| *leaf.as_bytes()).collect();
    let mut proof = Proof { siblings: Vec::new(), path_bits: Vec::new() };
    while level.len() > 1 {
        if let Some(sibling) = level.get(at ^ 1) {
            proof.siblings.push(Sha256Hash::from_bytes(*sibling));
            proof.path_bits.push(at % 2 == 1);
        }
        level = above(&level);
        at /= 2;
    }
    Ok(proof)
}

impl Proof {
    /// Whether the proof leads from the claim to `root`.
    ///
    /// # Errors
    /// `merkle_verify_failed` when this is no proof at all: lists of different lengths, too many levels, or a tree
    /// without leaves. A proof that is one and does not lead there gives false.
    pub fn verify(&self, claim: &Claim, root: &DatasetRoot) -> Result<bool, DomainError> {
        self.check()?;
        let leaf = match claim {
            Claim::Episode(episode) => leaf(episode),
            Claim::Leaf { episode_count: 0, .. } => return Err(malformed("a tree without leaves proves nothing")),
            Claim::Leaf { leaf, episode_count } => {
                if position(&self.path_bits, *episode_count).is_none() {
                    return Ok(false);
                }
                *leaf
            }
        };
        let top = self.siblings.iter().zip(&self.path_bits).fold(*leaf.as_bytes(), |below, (sibling, is_left)| {
            if *is_left { node(sibling.as_bytes(), &below) } else { node(&below, sibling.as_bytes()) }
        });
        Ok(seal(&top) == *root)
    }

    fn check(&self) -> Result<(), DomainError> {
        let (siblings, bits) = (self.siblings.len(), self.path_bits.len());
        if siblings != bits {
            return Err(malformed("a proof has as many path_bits as siblings")
                .field("siblings", siblings)
                .field("path_bits", bits));
        }
        if siblings > MAX_LEVELS {
            return Err(malformed("a proof has too many levels").field("limit", MAX_LEVELS).field("levels", siblings));
        }
        Ok(())
    }
}

fn malformed(message: &str) -> DomainError {
    DomainError::new(ErrorCode::MerkleVerifyFailed, message)
}

/// The place among `count` sorted leaves that a path leads down to, or `None` when no leaf has this path.
///
/// From the top there is no choice: a node is one that came up alone, which takes no bit, or the bit says which half.
fn position(path_bits: &[bool], count: u64) -> Option<u64> {
    if count == 0 {
        return None;
    }
    let mut widths = vec![count];
    let mut width = count;
    while width > 1 {
        width = width.div_ceil(2);
        widths.push(width);
    }
    let mut bits = path_bits.iter().rev();
    let mut at = 0;
    for width in widths.iter().rev().skip(1) {
        at *= 2;
        let came_up_alone = at == width - 1;
        if !came_up_alone && *bits.next()? {
            at += 1;
        }
    }
    bits.next().is_none().then_some(at)
}

/// A question to whoever can check proofs: does `proof` lead from `claim` to `root`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRequest {
    /// The root.
    pub root: DatasetRoot,
    /// What is claimed to be below it.
    pub claim: Claim,
    /// The way up.
    pub proof: Proof,
    /// How many episodes there are by the request; needed with a leaf, and checked with an episode too.
    pub episode_count: Option<u64>,
}

impl ProofRequest {
    /// Reads `{"root", "episode" | "leaf", "siblings": […], "path_bits": […], "episode_count"}`.
    ///
    /// # Errors
    /// `merkle_verify_failed` when it is anything else.
    pub fn parse(text: &[u8]) -> Result<Self, DomainError> {
        let code = ErrorCode::MerkleVerifyFailed;
        let value = Value::parse(text).map_err(|why| malformed(&format!("the proof is not valid: {why}")))?;
        let mut fields = Fields::of(value, "proof", code)?;
        let root = fields.digest("root")?;
        let siblings = fields
            .strings("siblings")?
            .iter()
            .map(|text| {
                text.parse().map_err(|_| fields.refuse("siblings", "must hold 64 lowercase hexadecimal digits"))
            })
            .collect::<Result<_, _>>()?;
        let path_bits = fields
            .list("path_bits")?
            .into_iter()
            .map(|item| match item {
                Value::Bool(bit) => Ok(bit),
                other => {
                    Err(fields.refuse("path_bits", &format!("must hold true and false only and has {}", other.kind())))
                }
            })
            .collect::<Result<_, _>>()?;
        let proof = Proof { siblings, path_bits };
        proof.check()?;
        let episode_count = if fields.has("episode_count") {
            let count = fields.count("episode_count")?;
            if count == 0 {
                return Err(fields.refuse("episode_count", "must be at least 1"));
            }
            Some(count)
        } else {
            fields.optional("episode_count");
            None
        };
        let claim = match (fields.optional_digest("episode")?, fields.optional_digest("leaf")?, episode_count) {
            (Some(episode), None, _) => Claim::Episode(episode),
            (None, Some(leaf), Some(episode_count)) => Claim::Leaf { leaf, episode_count },
            (None, Some(_), None) => {
                return Err(fields.refuse(
                    "episode_count",
                    "is needed with a leaf, which cannot be told from an inner node otherwise",
                ));
            }
            _ => return Err(fields.refuse("episode", "must be there, or leaf, and not both")),
        };
        fields.done()?;
        Ok(Self { root, claim, proof, episode_count })
    }

    /// The answer.
    ///
    /// # Errors
    /// `merkle_verify_failed` when the proof is malformed, which [`parse`](Self::parse) rules out.
    pub fn verify(&self) -> Result<bool, DomainError> {
        let possible = self.episode_count.is_none_or(|count| position(&self.proof.path_bits, count).is_some());
        Ok(possible && self.proof.verify(&self.claim, &self.root)?)
    }
}
