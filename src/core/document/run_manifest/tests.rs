//! Lensemble's own manifests, and what is made of one of them.

use super::*;
use crate::core::document::{Document, Kind};
use crate::core::tests::{bytes, vectors};

fn decode(text: &[u8]) -> Result<RunManifest, DomainError> {
    match Document::decode(Kind::RunManifest, text)? {
        Document::RunManifest(manifest) => Ok(manifest),
        other => panic!("{other:?}"),
    }
}

/// The manifest of a federated run with every field, after some replacements in its text.
fn changed(changes: &[(&str, &str)]) -> Result<RunManifest, DomainError> {
    let mut text = String::from_utf8(bytes("manifests/federated.json")).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    decode(text.as_bytes())
}

#[test]
fn lensembles_manifests_are_read() {
    for vector in vectors("manifest", 7) {
        let manifest = decode(&vector.bytes()).unwrap_or_else(|error| panic!("{}: {error}", vector.id));
        let expected = &vector.entry["expect"];
        assert_eq!(expected["config_hash"], manifest.config_hash.to_string(), "{}", vector.id);
        // The index is read with doubles for what is beyond 64 bits; that all digits count is shown by the seeds.
        match expected["root_seed"].as_i64() {
            Some(seed) => assert_eq!(seed.to_string(), *manifest.root_seed, "{}", vector.id),
            None => assert_eq!(expected["root_seed"].as_f64(), manifest.root_seed.parse().ok(), "{}", vector.id),
        }
    }
    let manifest = changed(&[]).unwrap();
    assert_eq!((manifest.num_rounds, manifest.round_sketch_seeds.len()), (Some(13), 13));
    assert_eq!((manifest.run_mode, manifest.dataset_roots.len()), (RunMode::Coordinator, 4));
    assert!(manifest.probe_hash.is_some() && manifest.probe_version == Some(2));
}

#[test]
fn altered_manifests_are_refused() {
    for vector in vectors("manifest-negative", 39) {
        let codes = vector.codes();
        match decode(&vector.bytes()) {
            Ok(_) => assert_eq!(codes, [""; 0], "{}", vector.id),
            Err(error) => assert!(codes.contains(&error.code().as_str()), "{}: {error}", vector.id),
        }
    }
}

#[test]
fn fields_that_may_be_absent_or_say_nothing() {
    let probe = changed(&[]).unwrap().probe_hash.unwrap().to_string();
    let none = changed(&[(&probe, &"0".repeat(64)), (r#""probe_version":2,"#, "")]).unwrap();
    assert_eq!((none.probe_hash, none.probe_version), (None, None));
    let probe = format!(r#""probe_hash":"{probe}","#);
    assert_eq!(changed(&[(&probe, "")]).unwrap().probe_hash, None);
    assert_eq!(changed(&[(&probe, r#""probe_hash":null,"#)]).unwrap().probe_hash, None);
    for time in ["2026-06-11T11:30:00+02:00", "2026-06-11T09:30:00.5Z"] {
        assert_eq!(changed(&[("2026-06-11T09:30:00.123456Z", time)]).unwrap().created_at, time);
    }
}

#[test]
fn what_does_not_follow_is_refused_by_its_field() {
    for (change, field) in [
        ((r#""0":"#, r#""00":"#), "round_sketch_seeds"),
        ((r#""0":"#, r#""13":"#), "round_sketch_seeds"),
        ((r#""num_rounds":13"#, r#""num_rounds":14"#), "round_sketch_seeds"),
        ((r#""num_rounds":13"#, r#""num_rounds":"13""#), "config_resolved.federation.num_rounds"),
        ((r#""cuda":"#, r#""rocm":1,"cuda":"#), "rocm"),
        ((r#""config_hash_algo":"#, r#""other":"#), "env.config_hash_algo"),
        ((r#""numpy":"2"#, r#""numpy":2,"x":"2"#), "dependency_versions"),
        ((r#""p0":"#, r#""p\u0000":"#), "dataset_roots"),
        ((r#""created_at":"2026-06-11T"#, r#""created_at":"2026-06-11 "#), "created_at"),
        ((r#""git_sha":""#, r#""git_sha":"0"#), "git_sha"),
    ] {
        let error = changed(&[change]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{error}");
        let named = error.fields()["field"].as_str().unwrap().to_owned();
        assert_eq!(named.strip_prefix("run_manifest.").unwrap_or(&named), field, "{error}");
    }
    for field in FREE_FORM {
        let place = format!(r#""{field}":{{"#);
        let error = changed(&[(&place, &format!(r#"{place}"x":"hf_0123456789","#))]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ResidencyViolation, "{field}");
        assert_eq!(error.fields()["field"], format!("run_manifest.{field}"));
    }
}

#[test]
fn a_revision_adds_roots_and_changes_nothing() {
    let all = changed(&[]).unwrap();
    let mut earlier = all.clone();
    earlier.dataset_roots.pop_first();
    assert_eq!(all.revises(&earlier), Ok(()));
    assert_eq!(all.revises(&all), Ok(()));
    let error = earlier.revises(&all).unwrap_err();
    assert_eq!((&error.fields()["missing"], &error.fields()["changed"]), (&1.into(), &0.into()));
    let mut other = all.clone();
    other.dataset_roots.values_mut().for_each(|root| *root = DatasetRoot::from_bytes([7; 32]));
    let error = other.revises(&earlier).unwrap_err();
    assert!(error.message().ends_with("lacks 0 and changes 3 of the earlier manifest's 3 participants"), "{error}");
    for (field, other) in [
        ("config_hash", RunManifest { config_hash: ConfigHash::from_bytes([7; 32]), ..all.clone() }),
        ("root_seed", RunManifest { root_seed: "7".into(), ..all.clone() }),
        ("run_mode", RunManifest { run_mode: RunMode::Eval, ..all.clone() }),
    ] {
        let error = other.revises(&all).unwrap_err();
        assert_eq!(error.fields()["field"], format!("run_manifest.{field}"));
    }
}
