//! Each kind of document against Lensemble's own files, and against rules that only stand in the specification.

use serde_json::{Value, json};

use super::*;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::tests::{bytes, json as file, vectors};

fn decode(kind: Kind, value: &Value) -> Result<Document, DomainError> {
    Document::decode(kind, value.to_string().as_bytes())
}

/// Changes one field; `null` stays null, and an absent change takes the field away.
fn with(base: &Value, name: &str, change: Option<Value>) -> Value {
    let mut value = base.clone();
    let entries = value.as_object_mut().unwrap();
    match change {
        Some(change) => entries.insert(name.to_owned(), change),
        None => entries.remove(name),
    };
    value
}

/// Every vector of a positive and a negative kind.
fn check(kind: Kind, good: (&str, usize), bad: (&str, usize)) {
    for vector in vectors(good.0, good.1) {
        Document::decode(kind, &vector.bytes()).unwrap_or_else(|error| panic!("{}: {error}", vector.id));
    }
    for vector in vectors(bad.0, bad.1) {
        let code = Document::decode(kind, &vector.bytes()).err().map(|error| error.code().as_str());
        assert_eq!(code, vector.refusal(), "{}", vector.id);
    }
}

/// Each change of a good document, and the code that it is refused with.
fn refused(kind: Kind, good: &Value, changes: Vec<(&str, Option<Value>)>, code: ErrorCode) {
    decode(kind, good).unwrap();
    for (name, change) in changes {
        let told = format!("{name}: {change:?}");
        let error = decode(kind, &with(good, name, change)).map(|_| ()).expect_err(&told);
        assert_eq!(error.code(), code, "{told}");
    }
}

#[test]
fn commitments() {
    let kind = Kind::DatasetCommitment;
    check(kind, ("commitment", 3), ("commitment-negative", 13));
    for vector in vectors("commitment", 3) {
        let Ok(Document::DatasetCommitment(commitment)) = Document::decode(kind, &vector.bytes()) else { panic!() };
        let expect = &vector.entry["expect"];
        assert_eq!(commitment.merkle_root.to_string(), expect["merkle_root"].as_str().unwrap());
        assert_eq!(commitment.episode_count, expect["episode_count"].as_u64().unwrap());
    }
    for participant in ["c0", "c1", "c2"] {
        Document::decode(kind, &bytes(&format!("run/commitments/{participant}.json"))).unwrap();
    }
    let good = file("commitments/six-episodes.json");
    for ids in [json!([]), json!(["a", "b.c_d-9"]), json!(["机器人"])] {
        decode(kind, &with(&good, "embodiment_ids", Some(ids))).unwrap();
    }
    for time in ["2026-06-11T14:08:34Z", "2026-06-11T14:08:34.5+02:00"] {
        decode(kind, &with(&good, "created_at", Some(json!(time)))).unwrap();
    }
    let changes = vec![
        ("embodiment_ids", Some(json!(["Arm"]))),
        ("embodiment_ids", Some(json!(["9arm"]))),
        ("embodiment_ids", Some(json!([""]))),
        ("embodiment_ids", Some(json!(["a/b"]))),
        ("embodiment_ids", Some(json!(["a", "a"]))),
        ("embodiment_ids", Some(json!(["a".repeat(129)]))),
        ("embodiment_ids", None),
        ("created_at", Some(json!("2026-06-11T14:08:34"))),
        ("created_at", Some(json!("2026-06-11 14:08:34Z"))),
        ("created_at", Some(json!(1_700_000_000))),
        ("created_at", None),
        ("wmcp_version", Some(json!(""))),
        ("episode_count", Some(json!(6.0))),
        ("episode_count", Some(json!("6"))),
        ("hash_algorithm", None),
    ];
    refused(kind, &good, changes, ErrorCode::ProvenanceFailed);
}

#[test]
fn eval_reports() {
    let kind = Kind::EvalReport;
    check(kind, ("eval-report", 3), ("eval-report-negative", 18));
    for vector in vectors("eval-report", 3) {
        let Ok(Document::EvalReport(report)) = Document::decode(kind, &vector.bytes()) else { panic!() };
        assert_eq!(report.checkpoint_hash.to_string(), vector.entry["expect"]["checkpoint_hash"].as_str().unwrap());
    }
    let good = file("reports/eval-basic.json");
    decode(kind, &with(&good, "success_rate", Some(json!(1)))).unwrap();
    decode(kind, &with(&good, "probe_accuracy", None)).unwrap();
    decode(kind, &with(&good, "state_probe_r2", None)).unwrap();
    let changes = vec![
        ("planning_samples", Some(json!(0))),
        ("planning_samples", Some(json!(2.0))),
        ("success_rate", Some(json!("0.5"))),
        ("success_rate", Some(Value::Null)),
        ("env_id", Some(json!(""))),
        ("env_id", Some(json!("e".repeat(513)))),
        ("effective_dim", Some(json!(-1.0))),
        ("time_per_action_ms", None),
    ];
    refused(kind, &good, changes, ErrorCode::EvaluationFailed);
}

#[test]
fn drift_reports_and_records() {
    check(Kind::FrameDriftReport, ("frame-drift-report", 1), ("frame-drift-negative", 4));
    let record = &vectors("frame-drift-record", 1)[0];
    let Ok(Document::FrameDriftRecord(record)) = Document::decode(Kind::FrameDriftRecord, &record.bytes()) else {
        panic!()
    };
    let Ok(Document::FrameDriftReport(report)) = Document::decode(Kind::FrameDriftReport, &bytes("reports/drift.json"))
    else {
        panic!()
    };
    assert_eq!((&record.pairs, &record.drift_from_global_deg), (&report.pairs, &report.drift_from_global));
    assert_eq!((record.round_index, record.probe_hash), (report.round_index, report.probe_hash));

    let pair = |a: &str, b: &str| {
        let ids = json!({"participant_a": a, "participant_b": b});
        with(&with(&ids, "rotation_angle_deg", Some(json!(180))), "procrustes_residual", Some(json!(0)))
    };
    let good = file("reports/drift.json");
    let changes = vec![
        ("pairs", Some(json!([pair("a", "b"), pair("b", "a")]))),
        ("pairs", Some(json!([pair("a", "b"), pair("a", "b")]))),
        ("pairs", Some(json!([pair("", "b")]))),
        ("pairs", Some(json!([with(&pair("a", "b"), "rotation_angle_deg", Some(json!(180.5)))]))),
        ("pairs", Some(json!([with(&pair("a", "b"), "procrustes_residual", Some(json!(-0.1)))]))),
        ("pairs", Some(json!([with(&pair("a", "b"), "more", Some(json!(1)))]))),
        ("pairs", Some(json!([7]))),
        ("drift_from_global", Some(json!({"a": -1}))),
        ("drift_from_global", Some(json!({"a": "1"}))),
        ("drift_from_global", None),
        ("round_index", Some(json!(-1))),
    ];
    refused(Kind::FrameDriftReport, &good, changes, ErrorCode::GaugeFailed);
    let zeros = vec![("probe_hash", Some(json!("0".repeat(64)))), ("probe_hash", None)];
    refused(Kind::FrameDriftReport, &good, zeros, ErrorCode::ProbeInvalid);
    decode(Kind::FrameDriftReport, &with(&good, "pairs", Some(json!([pair("b", "a")])))).unwrap();
    let nan = good.to_string().replace("0.2253885716199875", "NaN");
    assert_eq!(Document::decode(Kind::FrameDriftReport, nan.as_bytes()).unwrap_err().code(), ErrorCode::GaugeFailed);

    let good = file("reports/drift-record.jsonl");
    let changes = vec![
        ("record_kind", Some(json!("metric"))),
        ("pairwise_residual", Some(json!([]))),
        ("pairwise_angle_deg", Some(json!([]))),
        ("participant_checkpoint_hash", Some(json!({"p0": "no"}))),
        ("pair_sampling", Some(json!(""))),
        ("timestamp", Some(json!("2026-06-11T09:30:00"))),
        ("global_checkpoint_hash", None),
    ];
    refused(Kind::FrameDriftRecord, &good, changes, ErrorCode::GaugeFailed);
}

#[test]
fn alignments() {
    let hash = |digit: &str| digit.repeat(64);
    let claim = json!({
        "schema_version": 1, "round_index": 7, "procrustes_q_hash": hash("a"), "procrustes_residual": 0.25,
        "rotation_angle_deg": 1.5, "probe_hash": hash("b"),
    });
    let changes = vec![
        ("procrustes_q_hash", Some(json!("aa"))),
        ("procrustes_residual", Some(json!(-1))),
        ("rotation_angle_deg", Some(json!(181))),
        ("participant_a", Some(json!("a"))),
    ];
    refused(Kind::AlignmentClaim, &claim, changes, ErrorCode::GaugeFailed);
    refused(Kind::AlignmentClaim, &claim, vec![("probe_hash", Some(json!("")))], ErrorCode::ProbeInvalid);

    let kind = Kind::AlignmentRecomputation;
    let good = json!({
        "schema_version": 1, "round_index": 7, "probe_hash": hash("b"), "recomputed": claim,
        "matches_expected": true, "max_abs_residual_delta": 0.0,
    });
    let alone = with(&with(&good, "matches_expected", Some(Value::Null)), "max_abs_residual_delta", Some(Value::Null));
    let Ok(Document::AlignmentRecomputation(recomputed)) = decode(kind, &alone) else { panic!() };
    assert_eq!(recomputed.matches_expected, None);
    let changes = vec![
        ("round_index", Some(json!(8))),
        ("probe_hash", Some(json!(hash("c")))),
        ("matches_expected", Some(Value::Null)),
        ("matches_expected", Some(json!(1))),
        ("max_abs_residual_delta", None),
        ("max_abs_residual_delta", Some(json!(-1))),
        ("recomputed", Some(json!([]))),
        ("recomputed", Some(with(&claim, "more", Some(json!(1))))),
    ];
    refused(kind, &good, changes, ErrorCode::GaugeFailed);
    let versions = vec![
        ("recomputed", Some(with(&claim, "schema_version", Some(json!(2))))),
        ("recomputed", Some(with(&claim, "schema_version", None))),
    ];
    refused(kind, &good, versions, ErrorCode::SchemaVersionMismatch);
}

#[test]
fn round_messages() {
    let hash = |digit: &str| digit.repeat(64);
    for round in file("run/round-open.json").as_array().unwrap() {
        for version in [1, 2] {
            let message = json!({
                "schema_version": version, "kind": "round_open", "round_index": round["round_index"],
                "theta_ref_hash": round["theta_ref"]["content_hash"],
                "theta_ref_locator": round["theta_ref"]["locator"],
                "phi_ref_hash": round["phi_ref"]["content_hash"], "phi_ref_locator": round["phi_ref"]["locator"],
                "sketch_seed": round["sketch_seed"], "probe_hash": round["probe_hash"], "landmark_hashes": [],
                "inner_horizon": 0,
            });
            let Ok(Document::RoundOpen(open)) = decode(Kind::RoundOpen, &message) else { panic!() };
            assert_eq!(Some(open.sketch_seed), round["sketch_seed"].as_u64());
            assert_eq!(open.probe_hash, None);
            let changes = vec![
                ("kind", Some(json!("round_close"))),
                ("kind", None),
                ("theta_ref_locator", Some(json!(""))),
                ("phi_ref_hash", Some(json!("AB"))),
                ("landmark_hashes", Some(json!(["ab"]))),
                ("landmark_hashes", None),
                ("inner_horizon", Some(json!(-1))),
                ("sketch_seed", Some(json!(1.5))),
                ("wmcp_version", Some(json!("wmcp-1.0.0"))),
            ];
            refused(Kind::RoundOpen, &message, changes, ErrorCode::RoundFailed);
        }
    }
    let close = round_message::RoundClose { round_index: 3, global_model_hash: hash("a").parse().unwrap() };
    let text = close.to_json();
    assert_eq!(Document::decode(Kind::RoundClose, text.as_bytes()), Ok(Document::RoundClose(close)));
    let good: Value = serde_json::from_str(&text).unwrap();
    let changes = vec![("parent_hash", Some(Value::Null)), ("kind", Some(json!("RoundClose"))), ("round_index", None)];
    refused(Kind::RoundClose, &good, changes, ErrorCode::RoundFailed);
    refused(Kind::RoundClose, &good, vec![("schema_version", Some(json!(3)))], ErrorCode::SchemaVersionMismatch);
}

#[test]
fn evidence_bundles_name_all_nine_kinds() {
    let kinds = [
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
    let location = json!({"local": "x", "hub": null});
    let reference = |kind: &str| json!({"kind": kind, "exists": true, "sha256": "a".repeat(64), "location": location});
    let bundle = |references: &[Value]| json!({"schema_version": 2, "references": references});
    let all: Vec<Value> = kinds.iter().map(|kind| reference(kind)).collect();
    let Ok(Document::EvidenceBundle(read)) = decode(Kind::EvidenceBundle, &bundle(&all)) else { panic!() };
    assert_eq!(read.references.iter().map(|reference| &*reference.role).collect::<Vec<_>>(), kinds);
    decode(Kind::EvidenceBundle, &with(&bundle(&all), "bundle_id", Some(json!("b")))).unwrap();

    let mut gaps = all.clone();
    gaps[1] = with(&with(&gaps[1], "exists", Some(json!(false))), "sha256", Some(Value::Null));
    gaps.remove(8);
    let error = decode(Kind::EvidenceBundle, &bundle(&gaps)).unwrap_err();
    assert_eq!(error.fields()["missing"], json!(["dataset-probe-registry", "checkpoint-weights"]));

    let changed = |name: &str, change: Option<Value>| {
        let mut all = all.clone();
        all[0] = with(&all[0], name, change);
        ("references", Some(json!(all)))
    };
    let twice = [all.clone(), vec![reference("run-manifest")]].concat();
    let changes = vec![
        ("references", Some(json!(twice))),
        changed("kind", Some(json!("other"))),
        changed("sha256", Some(Value::Null)),
        changed("location", Some(json!({}))),
        changed("location", Some(json!({"local": "x", "disk": "y"}))),
        changed("location", Some(json!({"hub": 7}))),
        changed("location", None),
        changed("more", Some(json!(1))),
        ("more", Some(json!(1))),
    ];
    refused(Kind::EvidenceBundle, &bundle(&all), changes, ErrorCode::ArtifactInvalid);
}

#[test]
fn release_bundles_have_every_role() {
    let item = |role: &str| json!({"role": role, "sha256": "a".repeat(64)});
    let roles = ["config", "checkpoint", "checkpoint", "probe", "sketch-seeds", "run-manifest", "settings", "log"];
    let items: Vec<Value> = roles.iter().map(|role| item(role)).collect();
    let bundle = |items: &[Value]| json!({"schema_version": 1, "release": "r-1", "items": items});
    let mut good = items.clone();
    good[1] = with(&good[1], "content_hash", Some(json!("b".repeat(64))));
    let Ok(Document::ReleaseBundle(read)) = decode(Kind::ReleaseBundle, &bundle(&good)) else { panic!() };
    assert_eq!(read.name.as_deref(), Some("r-1"));
    assert_eq!(read.references[1].content_hash.unwrap().to_string(), "b".repeat(64));

    let error = decode(Kind::ReleaseBundle, &bundle(&items[..6])).unwrap_err();
    assert_eq!(error.fields()["missing"], json!(["settings", "log"]));
    let changes = vec![
        ("release", Some(json!(""))),
        ("release", None),
        ("items", Some(json!([]))),
        ("items", Some(json!([7]))),
        ("items", Some(json!(vec![item("log"); 4097]))),
    ];
    refused(Kind::ReleaseBundle, &bundle(&items), changes, ErrorCode::ArtifactInvalid);
}

#[test]
fn every_kind_reads_its_version_before_anything_else() {
    for kind in Kind::ALL {
        for version in [json!(0), json!(kind.newest() + 1), json!("1"), json!(1.0), json!(true), Value::Null] {
            let error = decode(*kind, &json!({"schema_version": version, "nonsense": 1})).unwrap_err();
            assert_eq!(error.code(), ErrorCode::SchemaVersionMismatch, "{kind:?} {version}");
        }
        assert_eq!(decode(*kind, &json!({})).unwrap_err().code(), ErrorCode::SchemaVersionMismatch, "{kind:?}");
        for text in [&b"[]"[..], b"{", b"\xff", b""] {
            assert_eq!(Document::decode(*kind, text).unwrap_err().code(), kind.code(), "{kind:?}");
        }
    }
}

#[test]
fn refusals_do_not_repeat_what_a_document_says() {
    for (kind, good) in [
        (Kind::DatasetCommitment, file("commitments/six-episodes.json")),
        (Kind::EvalReport, file("reports/eval-full.json")),
        (Kind::FrameDriftReport, file("reports/drift.json")),
        (Kind::FrameDriftRecord, file("reports/drift-record.jsonl")),
    ] {
        for name in good.as_object().unwrap().keys().filter(|name| *name != "schema_version") {
            for change in [json!("s3cret"), json!({"s3cret": "s3cret"}), json!(["s3cret"]), json!([{"s3cret": 1}])] {
                if let Err(error) = decode(kind, &with(&good, name, Some(change))) {
                    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
                }
            }
        }
    }
}
