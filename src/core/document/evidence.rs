//! Bundles: lists of references to what a claim or a release rests on (Lensemble documentation D09 section 5.4).

use super::residency::{check_text, free_text};
use crate::core::digest::{BlobDigest, Sha256Hash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Fields, Value};

/// What a claim rests on, each exactly once.
const EVIDENCE: [&str; 9] = [
    "consortium-manifest",
    "dataset-probe-registry",
    "training-report",
    "privacy-aggregation-report",
    "observability-report",
    "eval-control-report",
    "run-manifest",
    "checkpoint-header",
    "checkpoint-weights",
];

/// What a release consists of, each at least once.
const RELEASE: [&str; 7] = ["config", "checkpoint", "probe", "sketch-seeds", "run-manifest", "settings", "log"];

/// Most references of one bundle.
const MAX_REFERENCES: usize = 4096;

/// Most bytes of a name.
const MAX_NAME: usize = 128;

/// Most bytes of a location.
const MAX_LOCATION: usize = 4096;

/// One thing that a bundle refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it is to the bundle: one of the nine kinds of evidence, or its role in a release.
    pub role: String,
    /// SHA-256 of its bytes.
    pub sha256: BlobDigest,
    /// The hash it is known by elsewhere, such as H1 of a checkpoint or the full hash of a probe.
    pub content_hash: Option<Sha256Hash>,
}

/// A list of references that lacks none of those it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// What the bundle is called; a release always has a name.
    pub name: Option<String>,
    /// The references, in the order of the document.
    pub references: Vec<Reference>,
}

impl Bundle {
    pub(super) fn read_evidence(fields: &mut Fields) -> Result<Self, DomainError> {
        let name = if fields.has("bundle_id") { Some(free_text(fields, "bundle_id", MAX_NAME)?) } else { None };
        fields.optional("bundle_id");
        let mut references: Vec<Reference> = Vec::new();
        let mut absent: Vec<String> = Vec::new();
        for mut item in items(fields, "references")? {
            let role = item.name("kind", MAX_NAME)?;
            if !EVIDENCE.contains(&&*role) {
                return Err(item.refuse("kind", "is none of the nine kinds of evidence"));
            }
            if absent.contains(&role) || references.iter().any(|reference| reference.role == role) {
                return Err(item.refuse("kind", "stands there twice"));
            }
            // What the writer itself has not found is as good as missing, and has no hash.
            if item.flag("exists")? {
                let sha256 = item.digest("sha256")?;
                references.push(Reference { role, sha256, content_hash: None });
            } else {
                item.optional_digest::<BlobDigest>("sha256")?;
                absent.push(role);
            }
            location(&mut item)?;
            item.done()?;
        }
        complete(fields, "references", &EVIDENCE, references.iter().map(|reference| &*reference.role))?;
        Ok(Self { name, references })
    }

    pub(super) fn read_release(fields: &mut Fields) -> Result<Self, DomainError> {
        let name = free_text(fields, "release", MAX_NAME)?;
        let mut references = Vec::new();
        for mut item in items(fields, "items")? {
            references.push(Reference {
                role: free_text(&mut item, "role", MAX_NAME)?,
                sha256: item.digest("sha256")?,
                content_hash: item.optional_digest("content_hash")?,
            });
            item.done()?;
        }
        complete(fields, "items", &RELEASE, references.iter().map(|reference| &*reference.role))?;
        Ok(Self { name: Some(name), references })
    }
}

/// The objects of a list.
fn items(fields: &mut Fields, name: &str) -> Result<Vec<Fields>, DomainError> {
    let list = fields.list(name)?;
    if list.len() > MAX_REFERENCES {
        return Err(fields.refuse(name, &format!("has more than {MAX_REFERENCES} entries")));
    }
    list.into_iter().map(|item| Fields::of(item, name, ErrorCode::ArtifactInvalid)).collect()
}

/// Where the thing was: `{"local"?, "hub"?}`, at least one of them. It is read only to be of the right form; what a
/// bundle refers to is found by its hash.
fn location(item: &mut Fields) -> Result<(), DomainError> {
    let mut location = item.object("location")?;
    let mut places = 0;
    for place in ["local", "hub"] {
        match location.optional(place) {
            None => {}
            Some(Value::String(text)) if (1..=MAX_LOCATION).contains(&text.len()) => {
                check_text(&text)?;
                places += 1;
            }
            Some(_) => return Err(location.refuse(place, &format!("must be text of 1 to {MAX_LOCATION} bytes"))),
        }
    }
    if places == 0 {
        return Err(item.refuse("location", "must say local, hub or both"));
    }
    location.done()
}

/// Refuses a bundle that lacks something; `missing` says all of it.
fn complete<'a>(
    fields: &Fields,
    name: &str,
    required: &[&'static str],
    found: impl Iterator<Item = &'a str>,
) -> Result<(), DomainError> {
    let found: Vec<&str> = found.collect();
    let missing: Vec<&str> = required.iter().copied().filter(|role| !found.contains(role)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(fields.refuse(name, &format!("must have {}", missing.join(", "))).field("missing", missing))
}
