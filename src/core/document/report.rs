//! Reports that are bound to a checkpoint or a round (Lensemble data model section 13, RFC-0006, RFC-0015).

use std::collections::{BTreeMap, BTreeSet};

use super::kind::{Kind, gate};
use super::residency::free_text;
use super::time::time;
use crate::core::digest::{ContentHash, ProbeHash, Sha256Hash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Fields, Value};

/// Most bytes of a name in a report.
const MAX_NAME: usize = 512;

/// How a checkpoint was made to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// The cross-entropy method.
    Cem,
    /// Its improved form.
    Icem,
    /// Model predictive path integral control.
    Mppi,
}

/// How well a checkpoint does.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalReport {
    /// H1 of the checkpoint.
    pub checkpoint_hash: ContentHash,
    /// Where it acted.
    pub env_id: String,
    /// How it was made to act.
    pub planner: Planner,
    /// How often it succeeded, from 0 to 1.
    pub success_rate: f64,
    /// Samples of each plan, at least 1.
    pub planning_samples: u64,
    /// What one action took.
    pub time_per_action_ms: f64,
    /// Effective dimension of the latent space, above 0.
    pub effective_dim: f64,
    /// Accuracy of a probe on the latent space, from 0 to 1.
    pub probe_accuracy: Option<f64>,
    /// How well the state can be read from it, at most 1.
    pub state_probe_r2: Option<f64>,
    /// Hash of the run manifest as whoever wrote the report defines it; there are several definitions.
    pub run_manifest_hash: Sha256Hash,
}

impl EvalReport {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        let report = Self {
            checkpoint_hash: fields.digest("checkpoint_hash")?,
            env_id: free_text(fields, "env_id", MAX_NAME)?,
            planner: match fields.string("planner")?.as_str() {
                "cem" => Planner::Cem,
                "icem" => Planner::Icem,
                "mppi" => Planner::Mppi,
                _ => return Err(fields.refuse("planner", "must be cem, icem or mppi")),
            },
            success_rate: number(fields, "success_rate", 0.0, 1.0)?,
            planning_samples: fields.count("planning_samples")?,
            time_per_action_ms: number(fields, "time_per_action_ms", 0.0, f64::MAX)?,
            effective_dim: number(fields, "effective_dim", 0.0, f64::MAX)?,
            probe_accuracy: optional_number(fields, "probe_accuracy", 0.0, 1.0)?,
            state_probe_r2: optional_number(fields, "state_probe_r2", f64::MIN, 1.0)?,
            run_manifest_hash: fields.digest("run_manifest_hash")?,
        };
        if report.planning_samples == 0 {
            return Err(fields.refuse("planning_samples", "must be at least 1"));
        }
        if report.effective_dim <= 0.0 {
            return Err(fields.refuse("effective_dim", "must be above 0"));
        }
        Ok(report)
    }
}

/// How far the frames of two participants are apart.
#[derive(Clone, Debug, PartialEq)]
pub struct PairDrift {
    /// One of them.
    pub participant_a: String,
    /// The other.
    pub participant_b: String,
    /// The angle between their frames, from 0 to 180.
    pub rotation_angle_deg: f64,
    /// What no rotation takes away.
    pub procrustes_residual: f64,
}

/// How far the participants' frames have drifted apart.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameDriftReport {
    /// The round.
    pub round_index: u64,
    /// The probe it was measured with.
    pub probe_hash: ProbeHash,
    /// Each pair of participants at most once.
    pub pairs: Vec<PairDrift>,
    /// The angle between each participant's frame and the global one.
    pub drift_from_global: BTreeMap<String, f64>,
}

impl FrameDriftReport {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        let round_index = fields.count("round_index")?;
        let probe_hash = probe_hash(fields)?;
        let pairs = pairs(fields, "pairs", Kind::FrameDriftReport, |pair| {
            Ok((angle(pair, "rotation_angle_deg")?, number(pair, "procrustes_residual", 0.0, f64::MAX)?))
        })?
        .into_iter()
        .map(|((participant_a, participant_b), (rotation_angle_deg, procrustes_residual))| PairDrift {
            participant_a,
            participant_b,
            rotation_angle_deg,
            procrustes_residual,
        })
        .collect();
        Ok(Self { round_index, probe_hash, pairs, drift_from_global: angles(fields, "drift_from_global")? })
    }
}

/// The same as a line of the metrics stream.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameDriftRecord {
    /// The round.
    pub round_index: u64,
    /// The probe it was measured with.
    pub probe_hash: ProbeHash,
    /// H1 of the global checkpoint.
    pub global_checkpoint_hash: ContentHash,
    /// The hash of each participant's own checkpoint, which the registry never sees.
    pub participant_checkpoint_hash: BTreeMap<String, Sha256Hash>,
    /// Each pair of participants at most once.
    pub pairs: Vec<PairDrift>,
    /// The angle between each participant's frame and the global one.
    pub drift_from_global_deg: BTreeMap<String, f64>,
    /// Which pairs were measured.
    pub pair_sampling: String,
    /// When.
    pub timestamp: String,
}

impl FrameDriftRecord {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        let kind = Kind::FrameDriftRecord;
        if fields.string("record_kind")? != "frame_drift" {
            return Err(fields.refuse("record_kind", "must be frame_drift"));
        }
        let round_index = fields.count("round_index")?;
        let probe_hash = probe_hash(fields)?;
        let found = pairs(fields, "pairwise_angle_deg", kind, |pair| angle(pair, "angle_deg"))?;
        let residuals = pairs(fields, "pairwise_residual", kind, |pair| number(pair, "residual", 0.0, f64::MAX))?;
        if !found.iter().map(|(pair, _)| pair).eq(residuals.iter().map(|(pair, _)| pair)) {
            return Err(
                fields.refuse("pairwise_residual", "must have the pairs of pairwise_angle_deg, in the same order")
            );
        }
        let pairs = found
            .into_iter()
            .zip(residuals)
            .map(|(((participant_a, participant_b), rotation_angle_deg), (_, procrustes_residual))| PairDrift {
                participant_a,
                participant_b,
                rotation_angle_deg,
                procrustes_residual,
            })
            .collect();
        Ok(Self {
            round_index,
            probe_hash,
            global_checkpoint_hash: fields.digest("global_checkpoint_hash")?,
            participant_checkpoint_hash: fields.digests("participant_checkpoint_hash")?,
            pairs,
            drift_from_global_deg: angles(fields, "drift_from_global_deg")?,
            pair_sampling: fields.name("pair_sampling", MAX_NAME)?,
            timestamp: time(fields, "timestamp")?,
        })
    }
}

/// What somebody claims of an alignment.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignmentClaim {
    /// The round.
    pub round_index: u64,
    /// Hash of the rotation.
    pub procrustes_q_hash: Sha256Hash,
    /// What the rotation does not take away.
    pub procrustes_residual: f64,
    /// The angle of the rotation, from 0 to 180.
    pub rotation_angle_deg: f64,
    /// The probe it was measured with.
    pub probe_hash: ProbeHash,
}

impl AlignmentClaim {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        Ok(Self {
            round_index: fields.count("round_index")?,
            procrustes_q_hash: fields.digest("procrustes_q_hash")?,
            procrustes_residual: number(fields, "procrustes_residual", 0.0, f64::MAX)?,
            rotation_angle_deg: angle(fields, "rotation_angle_deg")?,
            probe_hash: probe_hash(fields)?,
        })
    }
}

/// What a verifier has recomputed of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignmentRecomputation {
    /// The claim as recomputed; its round and probe are those of the whole document.
    pub recomputed: AlignmentClaim,
    /// Whether the published claim is the same; `None` when there was none to compare with.
    pub matches_expected: Option<bool>,
    /// How far the residuals are apart; there exactly when `matches_expected` is.
    pub max_abs_residual_delta: Option<f64>,
}

impl AlignmentRecomputation {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        let round_index = fields.count("round_index")?;
        let probe_hash = probe_hash(fields)?;
        let inner = fields.take("recomputed")?;
        gate(&inner, "recomputed claim", Kind::AlignmentClaim.newest(), Kind::AlignmentClaim.code())?;
        fields.put("recomputed", inner);
        let mut claim = fields.object("recomputed")?;
        claim.take("schema_version")?;
        let recomputed = AlignmentClaim::read(&mut claim)?;
        if recomputed.round_index != round_index {
            return Err(claim.refuse("round_index", "is not the round of the document"));
        }
        if recomputed.probe_hash != probe_hash {
            return Err(claim.refuse("probe_hash", "is not the probe of the document"));
        }
        claim.done()?;
        let matches_expected = if fields.has("matches_expected") {
            Some(fields.flag("matches_expected")?)
        } else {
            fields.optional("matches_expected");
            None
        };
        let max_abs_residual_delta = optional_number(fields, "max_abs_residual_delta", 0.0, f64::MAX)?;
        if matches_expected.is_some() != max_abs_residual_delta.is_some() {
            return Err(fields.refuse("max_abs_residual_delta", "must be there exactly when matches_expected is"));
        }
        Ok(Self { recomputed, matches_expected, max_abs_residual_delta })
    }
}

/// A finite number within bounds, both of them allowed.
fn number(fields: &mut Fields, name: &str, least: f64, most: f64) -> Result<f64, DomainError> {
    let number = fields.number(name)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let expected = match (least > f64::MIN, most < f64::MAX) {
        (false, _) => format!("must be at most {most}"),
        (true, false) => format!("must be at least {least}"),
        (true, true) => format!("must be between {least} and {most}"),
    };
    Err(fields.refuse(name, &expected))
}

fn optional_number(fields: &mut Fields, name: &str, least: f64, most: f64) -> Result<Option<f64>, DomainError> {
    if fields.has(name) {
        return number(fields, name, least, most).map(Some);
    }
    fields.optional(name);
    Ok(None)
}

fn angle(fields: &mut Fields, name: &str) -> Result<f64, DomainError> {
    number(fields, name, 0.0, 180.0)
}

/// The probe that something was measured with. Without one nothing can be, so the hash that means "no probe" is none.
fn probe_hash(fields: &mut Fields) -> Result<ProbeHash, DomainError> {
    fields.digest::<ProbeHash>("probe_hash").ok().filter(|hash| hash.as_bytes() != &[0; 32]).ok_or_else(|| {
        let why = fields.refuse("probe_hash", "must be the full hash of a public probe");
        DomainError::new(ErrorCode::ProbeInvalid, why.message()).field("field", "probe_hash")
    })
}

/// Angles by participant.
fn angles(fields: &mut Fields, name: &str) -> Result<BTreeMap<String, f64>, DomainError> {
    fields
        .map(name)?
        .into_iter()
        .map(|(participant, value)| {
            // Not through `Fields`, which would put the participant's name into the message.
            let angle = match &value {
                Value::Float(number) => Some(*number),
                Value::Integer(digits) => digits.parse().ok(),
                _ => None,
            };
            angle
                .filter(|angle| (0.0..=180.0).contains(angle))
                .map(|angle| (participant, angle))
                .ok_or_else(|| fields.refuse(name, "must hold numbers between 0 and 180"))
        })
        .collect()
}

type Pair = (String, String);

/// A list of pairs of participants, of which none is a participant with itself or stands there twice.
fn pairs<T>(
    fields: &mut Fields,
    name: &str,
    kind: Kind,
    measured: impl Fn(&mut Fields) -> Result<T, DomainError>,
) -> Result<Vec<(Pair, T)>, DomainError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for item in fields.list(name)? {
        let mut pair = Fields::of(item, name, kind.code())?;
        let (one, other) = (pair.name("participant_a", MAX_NAME)?, pair.name("participant_b", MAX_NAME)?);
        let measured = measured(&mut pair)?;
        pair.done()?;
        let unordered = if one < other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
        if one == other {
            return Err(fields.refuse(name, "pairs a participant with itself"));
        }
        if !seen.insert(unordered) {
            return Err(fields.refuse(name, "has a pair twice"));
        }
        found.push(((one, other), measured));
    }
    Ok(found)
}
