//! What an audit makes of rows and of the files that they name.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::super::document::summary;
use super::super::run::{ENCODER, PREDICTOR};
use super::super::shelf::digest_of;
use super::super::verify::recompute;
use crate::core::audit::{
    ArtifactFacts, AuditCode, Auditor, Divergence, EventFacts, FileFacts, Finding, Presence, RoundFacts, Tier,
};
use crate::core::checkpoint::Links;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::document::kind::PUBLIC_PROBE;
use crate::core::document::{Document, Kind};
use crate::core::intake::Verified;
use crate::core::lineage::structure;
use crate::core::run::Name;
use crate::store::blob::{BlobKey, LocalBlobs};
use crate::store::meta::audit::{AuditDocument, AuditEvent, AuditFileRow, AuditGroupRow, AuditPage, AuditRow};

/// An event and what the rows say that it must tell.
pub(super) fn told(run: &Name, seq: u64, row: AuditEvent) -> EventFacts {
    let abort = row.abort_at.map(|at| {
        let said = serde_json::json!({
            "run": run.as_str(), "round_index": row.abort_round, "attempt": row.abort_attempt,
            "reason_code": row.abort_reason, "detail": row.abort_detail,
        });
        (said, at)
    });
    let document = row.document_at.map(|at| {
        let said = serde_json::json!({
            "run": run.as_str(), "kind": row.document_kind, "digest": row.document_digest,
        });
        (said, at)
    });
    EventFacts { seq, kind: row.kind, at: row.at, data: row.data, abort, document }
}

/// Everything that is wrong with a document. Blocks.
pub(super) fn look_at_document(row: &AuditDocument, blobs: &LocalBlobs, tier: Tier) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |code, what: &str, expected: Option<String>, found: Option<String>| {
        let place = format!("document {} of kind {}{what}", row.seq, row.kind);
        findings.push(Finding { code, round_index: None, expected, found, place });
    };
    if !row.told {
        add(AuditCode::StateDiverges, ", in the events", None, None);
    }
    let Some(body) = &row.body else {
        look_at_blob(row, blobs, tier, &mut add);
        return findings;
    };
    let digest = BlobDigest::of(body).to_string();
    if digest != row.digest {
        add(AuditCode::BlobHashMismatch, "", Some(row.digest.clone()), Some(digest));
        return findings;
    }
    let decoded = Kind::parse(&row.kind).and_then(|kind| Document::decode_versioned(kind, body).ok());
    let Some((document, version)) = decoded else {
        add(AuditCode::EntryMalformed, "", None, None);
        return findings;
    };
    // What a bundle referred to and was not here can be here now.
    let bundle = matches!(document, Document::EvidenceBundle(_) | Document::ReleaseBundle(_));
    let expected = if bundle { row.summary.clone() } else { summary(&document, &[]) };
    for (what, expected, found) in [
        (", schema version", version.to_string(), row.schema_version.to_string()),
        (", size", body.len().to_string(), row.size.to_string()),
        (", summary", expected, row.summary.clone()),
    ] {
        if expected != found {
            add(AuditCode::StateDiverges, what, Some(expected), Some(found));
        }
    }
    findings
}

/// A document whose bytes lie in the store: a public probe.
fn look_at_blob(
    row: &AuditDocument,
    blobs: &LocalBlobs,
    tier: Tier,
    add: &mut impl FnMut(AuditCode, &str, Option<String>, Option<String>),
) {
    let expected = Some(row.digest.clone());
    if row.kind != PUBLIC_PROBE {
        return add(AuditCode::BlobMissing, "", expected, None);
    }
    let file = AuditFileRow {
        round_index: 0,
        name: row.kind.clone(),
        digest: row.digest.clone(),
        blob_key: row.blob_key.clone(),
        size: row.blob_size,
        damaged_at: row.damaged_at,
    };
    let size = match presence(&file, blobs, tier, None) {
        Presence::Missing => return add(AuditCode::BlobMissing, "", expected, None),
        Presence::Damaged => return add(AuditCode::BlobHashMismatch, "", expected, None),
        Presence::Unknown => return,
        Presence::Hashed(size, digest) => {
            if digest.to_string() != row.digest {
                add(AuditCode::BlobHashMismatch, "", expected, Some(digest.to_string()));
            }
            size
        }
        Presence::Size(size) => size,
    };
    if tier >= Tier::Full && i64::try_from(size) != Ok(row.size) {
        add(AuditCode::BlobSizeMismatch, "", Some(row.size.to_string()), Some(size.to_string()));
    }
}

/// The columns beside a header, and in the deepest tier beside the bytes, that say something else.
fn diverging(row: &AuditRow, links: Option<&Links>, verified: Option<&Verified>) -> Vec<Divergence> {
    let mut diverging = Vec::new();
    let mut same = |place, expected: String, found: Option<String>| {
        if found.as_ref() != Some(&expected) {
            diverging.push(Divergence { place, expected, found: found.unwrap_or_default() });
        }
    };
    if let Some(links) = links {
        let version = links.schema_version.to_string();
        same("schema version of the round", version.clone(), Some(row.schema_version.to_string()));
        same("schema version beside the artifact", version, row.own_schema.map(|version| version.to_string()));
        same("config_hash beside the artifact", links.config_hash.to_string(), row.own_config.clone());
    }
    if let Some(verified) = verified {
        let header = verified.header();
        same("structure of the round", structure(header).to_string(), Some(row.structure.clone()));
        let count = header.manifest.len().to_string();
        same("number of tensors", count, row.own_tensors.map(|count| count.to_string()));
    }
    diverging
}

/// Holds a page of rounds against what lies in the store. Blocks.
pub(super) fn look_at(
    page: &AuditPage,
    blobs: &LocalBlobs,
    tier: Tier,
    aborts: &BTreeMap<u64, u64>,
    auditor: &mut Auditor,
) {
    let (mut files, mut groups) = (page.files.as_slice(), page.groups.as_slice());
    for row in &page.rounds {
        let own_files = take(&mut files, |file: &AuditFileRow| file.round_index == row.round_index);
        let own_groups = take(&mut groups, |group: &AuditGroupRow| group.round_index == row.round_index);
        match facts(row, own_files, own_groups, blobs, tier, aborts) {
            Ok(facts) => auditor.round(&facts),
            Err(column) => auditor.unreadable_round(u64::try_from(row.round_index).ok(), column),
        }
    }
}

/// Splits off the entries at the front that belong together.
fn take<'a, T>(entries: &mut &'a [T], belongs: impl Fn(&T) -> bool) -> &'a [T] {
    let count = entries.iter().take_while(|entry| belongs(entry)).count();
    let (front, rest) = entries.split_at(count);
    *entries = rest;
    front
}

/// The columns as what they must be; the name of the first that is not.
fn facts(
    row: &AuditRow,
    files: &[AuditFileRow],
    groups: &[AuditGroupRow],
    blobs: &LocalBlobs,
    tier: Tier,
    aborts: &BTreeMap<u64, u64>,
) -> Result<RoundFacts, &'static str> {
    let content_hash: ContentHash = parse(&row.content_hash, "rounds.content_hash")?;
    let round_index = number(row.round_index, "rounds.round_index")?;
    let verified = if tier == Tier::Deep { verified(row, files, blobs) } else { None };
    let mut file_facts = Vec::with_capacity(files.len());
    for file in files {
        let digest: BlobDigest = parse(&file.digest, "artifact_files.digest")?;
        let size = number(file.size.unwrap_or(0), "blobs.size")?;
        file_facts.push(FileFacts {
            name: file.name.clone(),
            digest,
            size,
            presence: presence(file, blobs, tier, verified.as_ref()),
        });
    }
    let header = row.header.as_deref().map(|text| (BlobDigest::of(text), Links::parse(text)));
    let diverging = diverging(row, header.as_ref().and_then(|(_, links)| links.as_ref()), verified.as_ref());
    let artifact = match (row.own_round, row.own_size) {
        (Some(round), Some(size)) => Some(ArtifactFacts {
            round_index: number(round, "artifacts.round_index")?,
            parent_hash: maybe(row.own_parent.as_ref(), "artifacts.parent_hash")?,
            header_digest: maybe(row.own_digest.as_ref(), "artifacts.header_digest")?,
            size: number(size, "artifacts.size")?,
            theta: group(groups, ENCODER)?,
            phi: group(groups, PREDICTOR)?,
            recomputed: (tier == Tier::Deep)
                .then(|| verified.as_ref().is_some_and(|verified| agrees(verified, content_hash, groups, files))),
            files: file_facts,
            diverging,
        }),
        _ => None,
    };
    Ok(RoundFacts {
        round_index,
        content_hash,
        parent_hash: maybe(row.parent_hash.as_ref(), "rounds.parent_hash")?,
        header_digest: Some(parse(&row.header_digest, "rounds.header_digest")?),
        theta: maybe(row.theta_hash.as_ref(), "rounds.theta_hash")?,
        phi: maybe(row.phi_hash.as_ref(), "rounds.phi_hash")?,
        size: number(row.size, "rounds.size")?,
        attempt: number(row.attempt, "rounds.attempt")?,
        committed_at: Some(row.committed_at),
        // Aborts belong to the round that was trained: the one before.
        aborts: round_index.checked_sub(1).and_then(|trained| aborts.get(&trained)).copied().unwrap_or(0),
        header,
        artifact,
    })
}

fn parse<T: FromStr>(text: &str, column: &'static str) -> Result<T, &'static str> {
    text.parse().map_err(|_| column)
}

fn maybe<T: FromStr>(text: Option<&String>, column: &'static str) -> Result<Option<T>, &'static str> {
    text.map(|text| parse(text, column)).transpose()
}

fn number(value: i64, column: &'static str) -> Result<u64, &'static str> {
    u64::try_from(value).map_err(|_| column)
}

fn group<T: FromStr>(groups: &[AuditGroupRow], name: &str) -> Result<Option<T>, &'static str> {
    let row = groups.iter().find(|group| group.name == name);
    row.map(|group| parse(&group.group_hash, "artifact_groups.group_hash")).transpose()
}

/// What is there of a file. All hashes of an artifact come from one reading, unless that reading fails.
fn presence(row: &AuditFileRow, blobs: &LocalBlobs, tier: Tier, verified: Option<&Verified>) -> Presence {
    let Some(key) = row.blob_key.as_deref().and_then(BlobKey::parse) else { return Presence::Missing };
    if row.damaged_at.is_some() {
        return Presence::Damaged;
    }
    if let Some(file) = verified.and_then(|verified| verified.files().iter().find(|file| file.name == row.name)) {
        return Presence::Hashed(file.len, file.digest);
    }
    let found = match tier {
        Tier::Quick | Tier::Full => blobs.size(&key).map(Presence::Size),
        Tier::Deep => blobs.read(&key).and_then(|file| {
            let size = file.metadata()?.len();
            Ok(Presence::Hashed(size, digest_of(&file)?))
        }),
    };
    found.unwrap_or(Presence::Missing)
}

/// Every hash of an artifact, recomputed from its stored bytes; `None` when they are no artifact.
fn verified(row: &AuditRow, files: &[AuditFileRow], blobs: &LocalBlobs) -> Option<Verified> {
    let open = |file: &AuditFileRow| blobs.read(&file.blob_key.as_deref().and_then(BlobKey::parse)?).ok();
    let files = files.iter().map(open).collect::<Option<Vec<_>>>()?;
    recompute(row.header.as_deref()?, &files).ok()
}

/// True when H1, each group's name, H2, size and number of tensors, and the files' names are what the rows say.
fn agrees(verified: &Verified, expected: ContentHash, groups: &[AuditGroupRow], files: &[AuditFileRow]) -> bool {
    let told =
        groups.iter().map(|group| (group.name.as_str(), group.group_hash.clone(), group.size, group.tensor_count));
    let number = |value: u64| i64::try_from(value).unwrap_or(-1);
    let found = verified
        .groups()
        .iter()
        .map(|group| (group.name, group.digest.to_string(), number(group.len), number(group.tensors as u64)));
    let names = verified.files().iter().map(|file| file.name.as_str());
    verified.content_hash() == expected && told.eq(found) && files.iter().map(|file| file.name.as_str()).eq(names)
}
