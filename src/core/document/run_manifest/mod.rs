//! `RunManifest` version 1 (Lensemble RFC-0009 section 6): what a run was started with.
//!
//! Lensemble's reader checks the configuration's hash and nothing else. Everything else that follows from the root seed
//! or stands twice is checked here, so that a stored manifest can be relied on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::config::config_hash;
use super::residency::check_free_form;
use crate::core::digest::{ConfigHash, DatasetRoot, ProbeHash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Fields, Value};
use crate::core::run::is_participant;
use crate::core::seed;

/// The fields whose content the schema leaves open.
const FREE_FORM: [&str; 3] = ["config_resolved", "env", "dependency_versions"];

/// What a run was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunManifest {
    /// Hash of the resolved configuration.
    pub config_hash: ConfigHash,
    /// The root of all seeds, in decimal digits; it has no bounds.
    pub root_seed: Box<str>,
    /// The seeds of the libraries.
    pub component_seeds: ComponentSeeds,
    /// How many rounds the configuration plans; `None` where it does not say.
    pub num_rounds: Option<u64>,
    /// The seed of each round's sketch: of all planned rounds, where their number is known.
    pub round_sketch_seeds: BTreeMap<u64, u64>,
    /// The commit of the code: 40 or 64 hexadecimal digits, perhaps with `+dirty`; or `unknown`.
    pub git_sha: String,
    /// The public probe; `None` for the hash of zeros too, which means that there is none.
    pub probe_hash: Option<ProbeHash>,
    /// Version of the probe.
    pub probe_version: Option<u64>,
    /// The data-set root of each participant, as far as they are known.
    pub dataset_roots: BTreeMap<String, DatasetRoot>,
    /// The contract version in force.
    pub wmcp_version: String,
    /// Whose manifest this is.
    pub run_mode: RunMode,
    /// When it was written: RFC 3339 with an offset.
    pub created_at: String,
}

/// The seeds of the libraries, each derived from the root by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the libraries say what they are")]
pub struct ComponentSeeds {
    pub python: u64,
    pub numpy: u64,
    pub torch: u64,
    pub cuda: u64,
}

/// Which part of a run a manifest describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// Training without a federation.
    TrainLocal,
    /// The coordinator of a federation.
    Coordinator,
    /// One of its participants.
    Participant,
    /// An evaluation.
    Eval,
}

impl RunMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::TrainLocal, Self::Coordinator, Self::Participant, Self::Eval];

    /// As it is spelled on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TrainLocal => "train_local",
            Self::Coordinator => "coordinator",
            Self::Participant => "participant",
            Self::Eval => "eval",
        }
    }
}

impl RunManifest {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, DomainError> {
        // First, so that private data is called that and not a mistake in a hash.
        for name in FREE_FORM {
            let value = fields.take(name)?;
            check_free_form(&value, &format!("run_manifest.{name}"))?;
            fields.put(name, value);
        }
        let config = fields.take("config_resolved")?;
        if !matches!(config, Value::Object(_)) {
            return Err(fields.refuse("config_resolved", &format!("must be an object and is {}", config.kind())));
        }
        environment(fields)?;
        let root_seed = fields.integer("root_seed")?;
        let num_rounds = num_rounds(fields, &config)?;
        let manifest = Self {
            config_hash: fields.digest("config_hash")?,
            component_seeds: ComponentSeeds::read(fields, &root_seed)?,
            round_sketch_seeds: sketch_seeds(fields, &root_seed, num_rounds)?,
            root_seed,
            num_rounds,
            git_sha: checked(fields, "git_sha", is_commit, "must be a commit of 40 or 64 digits, or unknown")?,
            probe_hash: fields.optional_digest("probe_hash")?.filter(|hash: &ProbeHash| *hash.as_bytes() != [0; 32]),
            probe_version: if fields.has("probe_version") {
                Some(fields.count("probe_version")?)
            } else {
                fields.optional("probe_version");
                None
            },
            dataset_roots: dataset_roots(fields)?,
            wmcp_version: fields.name("wmcp_version", 256)?,
            run_mode: {
                let text = fields.string("run_mode")?;
                let mode = RunMode::ALL.into_iter().find(|mode| mode.as_str() == text);
                mode.ok_or_else(|| fields.refuse("run_mode", "is none of train_local, coordinator, participant, eval"))?
            },
            created_at: checked(fields, "created_at", is_time, "must be a time of RFC 3339 with an offset")?,
        };
        manifest.agrees_with(fields, &config)?;
        Ok(manifest)
    }

    /// Compares what stands in the configuration too.
    fn agrees_with(&self, fields: &Fields, config: &Value) -> Result<(), DomainError> {
        if config_hash(config) != self.config_hash {
            return Err(fields.refuse("config_hash", "is not the hash of config_resolved"));
        }
        let differs = |path: &[&str], own: &Value| config.at(path).is_some_and(|value| value != own);
        if differs(&["determinism", "root_seed"], &Value::Integer(self.root_seed.clone())) {
            return Err(fields.refuse("root_seed", "is another than the configuration has"));
        }
        if differs(&["model", "wmcp_version"], &Value::String(self.wmcp_version.clone())) {
            return Err(fields.refuse("wmcp_version", "is another than the configuration has").invariant("INV-WMCP"));
        }
        Ok(())
    }

    /// Whether this manifest may follow an earlier one of the same run: the data-set roots become known one after the
    /// other, nothing else that identifies a run changes.
    ///
    /// # Errors
    /// `config_invalid` with the reason.
    pub fn revises(&self, earlier: &Self) -> Result<(), DomainError> {
        let refuse = |field: &str, message: String| {
            let field = format!("run_manifest.{field}");
            DomainError::new(ErrorCode::ConfigInvalid, format!("{field} {message}"))
                .field("field", field)
                .remedy("Send the earlier manifest with data-set roots added to it, and nothing else changed.")
        };
        for (field, same) in [
            ("config_hash", self.config_hash == earlier.config_hash),
            ("root_seed", self.root_seed == earlier.root_seed),
            ("run_mode", self.run_mode == earlier.run_mode),
        ] {
            if !same {
                return Err(refuse(field, "is another than in the earlier manifest".to_owned()));
            }
        }
        let (mut missing, mut changed) = (0, 0);
        for (participant, root) in &earlier.dataset_roots {
            match self.dataset_roots.get(participant) {
                None => missing += 1,
                Some(now) if now != root => changed += 1,
                Some(_) => {}
            }
        }
        if missing + changed == 0 {
            return Ok(());
        }
        let known = earlier.dataset_roots.len();
        let message = format!("lacks {missing} and changes {changed} of the earlier manifest's {known} participants");
        Err(refuse("dataset_roots", message).field("missing", missing).field("changed", changed))
    }
}

impl ComponentSeeds {
    fn read(outer: &mut Fields, root_seed: &str) -> Result<Self, DomainError> {
        let mut fields = outer.object("component_seeds")?;
        let mut derived = |name: &str| {
            let seed = fields.count(name)?;
            let follows = seed == seed::derive(root_seed, name);
            if follows { Ok(seed) } else { Err(fields.refuse(name, "does not follow from root_seed")) }
        };
        let seeds = Self {
            python: derived("python")?,
            numpy: derived("numpy")?,
            torch: derived("torch")?,
            cuda: derived("cuda")?,
        };
        fields.done()?;
        Ok(seeds)
    }
}

/// How the hash and the seeds were made must be how they are made here; everything else is any text.
fn environment(fields: &mut Fields) -> Result<(), DomainError> {
    let env = fields.map("env")?;
    let dependencies = fields.map("dependency_versions")?;
    for (name, map) in [("env", &env), ("dependency_versions", &dependencies)] {
        if !map.values().all(|value| matches!(value, Value::String(_))) {
            return Err(fields.refuse(name, "must hold a string for each name"));
        }
    }
    for (name, known) in [("seed_derivation", "blake3-v1"), ("config_hash_algo", "sha256-canon-v1")] {
        if !matches!(env.get(name), Some(Value::String(text)) if text == known) {
            return Err(fields.refuse(&format!("env.{name}"), &format!("must be {known}")));
        }
    }
    Ok(())
}

/// How many rounds a configuration plans. One of a form that Lensemble does not know may not say.
fn num_rounds(fields: &Fields, config: &Value) -> Result<Option<u64>, DomainError> {
    let count = match config.at(&["federation", "num_rounds"]) {
        None => return Ok(None),
        Some(Value::Integer(digits)) => digits.parse().ok(),
        Some(_) => None,
    };
    count.map(Some).ok_or_else(|| fields.refuse("config_resolved.federation.num_rounds", "must be a number of rounds"))
}

/// The seeds of the rounds' sketches, one for each planned round; where nothing is planned, those that there are.
fn sketch_seeds(
    fields: &mut Fields,
    root_seed: &str,
    num_rounds: Option<u64>,
) -> Result<BTreeMap<u64, u64>, DomainError> {
    const NAME: &str = "round_sketch_seeds";
    let given = fields.map(NAME)?;
    // As many different rounds as are planned, none beyond the last: then every one is there.
    if num_rounds.is_some_and(|planned| planned != given.len() as u64) {
        return Err(fields.refuse(NAME, "must have one seed for each round of the configuration"));
    }
    given
        .into_iter()
        .map(|(round, given)| {
            let round = round
                .parse::<u64>()
                .ok()
                .filter(|number| number.to_string() == round && num_rounds.is_none_or(|planned| *number < planned))
                .ok_or_else(|| fields.refuse(NAME, "has a name that is no round"))?;
            let seed = seed::sketch(root_seed, round);
            if given == Value::Integer(seed.to_string().into()) {
                return Ok((round, seed));
            }
            let message = format!("has a seed for round {round} that does not follow from root_seed");
            Err(fields.refuse(NAME, &message).field("round", round).invariant("INV-SKETCH-CONSISTENCY"))
        })
        .collect()
}

/// The participants' roots; a manifest from before the first is known may leave the field out.
fn dataset_roots(fields: &mut Fields) -> Result<BTreeMap<String, DatasetRoot>, DomainError> {
    const NAME: &str = "dataset_roots";
    let Ok(given) = fields.take(NAME) else { return Ok(BTreeMap::new()) };
    fields.put(NAME, given);
    let roots: BTreeMap<String, DatasetRoot> = fields.digests(NAME)?;
    if roots.keys().all(|name| is_participant(name)) {
        Ok(roots)
    } else {
        Err(fields.refuse(NAME, "must name participants by 1 to 128 characters without control characters"))
    }
}

/// A text that follows a rule.
fn checked(fields: &mut Fields, name: &str, rule: fn(&str) -> bool, message: &str) -> Result<String, DomainError> {
    let text = fields.string(name)?;
    if rule(&text) { Ok(text) } else { Err(fields.refuse(name, message)) }
}

/// A commit of SHA-1 or SHA-256, perhaps with changes on top of it; or the word for none.
fn is_commit(text: &str) -> bool {
    let commit = text.strip_suffix("+dirty").unwrap_or(text);
    let digits = commit.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    text == "unknown" || (matches!(commit.len(), 40 | 64) && digits)
}

/// A time without an offset is not one moment.
fn is_time(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T') && OffsetDateTime::parse(text, &Rfc3339).is_ok()
}
