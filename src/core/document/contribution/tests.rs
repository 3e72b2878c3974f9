//! Ledgers against Lensemble's own, and every way in which one can be wrong.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::core::tests::{bytes, json as file, vectors};

fn hash(digit: &str) -> String {
    digit.repeat(64)
}

fn record(round: u64, names: &[&str], prev: Option<RecordHash>) -> ContributionRecord {
    ContributionRecord {
        round_index: round,
        participants: names.iter().map(|name| (*name).to_owned()).collect(),
        dataset_roots: names.iter().map(|name| ((*name).to_owned(), hash("1").parse().unwrap())).collect(),
        global_model_hash: hash("2").parse().unwrap(),
        prev_record_hash: prev,
    }
}

#[test]
fn ledgers_are_lensembles() {
    for vector in vectors("ledger", 5) {
        let text = vector.bytes();
        let expect = &vector.entry["expect"];
        let head: RecordHash = expect["head"].as_str().unwrap().parse().unwrap();
        let ledger = check_ledger(&text, Some(head)).unwrap();
        assert!(ledger.intact, "{}", vector.id);
        assert_eq!((ledger.head, ledger.broken_at), (Some(head), None));
        if let Some(hashes) = expect.get("record_hashes") {
            assert_eq!(json!(ledger.records), *hashes, "{}", vector.id);
        }
        let canonical = vector.entry["canonical_records"].as_array();
        for (index, line) in std::str::from_utf8(&text).unwrap().lines().enumerate() {
            let record = ContributionRecord::parse(line.as_bytes()).unwrap();
            if let Some(canonical) = canonical {
                assert_eq!(std::str::from_utf8(&record.canonical()).unwrap(), canonical[index], "{}", vector.id);
            }
            // The library wrote every line; one of them it cannot read again.
            if vector.id == "ledger/line-separator-id" {
                assert_eq!(record.line(), line.replace('\u{2028}', "\\u2028"));
                assert_eq!(ledger_line(line, &record), record.line());
            } else {
                assert_eq!(record.line(), line, "{}", vector.id);
                assert_eq!(ledger_line(line, &record), line);
            }
            assert_eq!(ContributionRecord::parse(record.line().as_bytes()).unwrap(), record);
        }
    }
}

#[test]
fn what_is_wrong_with_a_ledger_is_found() {
    let intact = check_ledger(&bytes("ledger/six-rounds.jsonl"), None).unwrap();
    let mut lines = BTreeMap::new();
    for vector in vectors("ledger-negative", 30) {
        let expect = &vector.entry["expect"];
        let found = check_ledger(&vector.bytes(), intact.head);
        match (expect["verify_chain"].as_bool(), found) {
            (Some(chain), Ok(ledger)) => {
                assert_eq!(ledger.intact, chain, "{}", vector.id);
                lines.insert(vector.id, ledger.broken_at);
            }
            (None, Err(error)) => {
                assert_eq!(Some(error.code().as_str()), vector.refusal(), "{}", vector.id);
                assert!(error.fields()["line"].as_u64().unwrap() > 0, "{}", vector.id);
            }
            (_, found) => panic!("{}: {found:?}", vector.id),
        }
    }
    for (id, line) in [
        ("past-rewritten", Some(3)),
        ("first-has-prev", Some(1)),
        ("round-not-rising", Some(6)),
        ("tail-truncated", Some(4)),
        ("last-rewritten", Some(6)),
        ("emptied", None),
        ("blank-lines", None),
    ] {
        assert_eq!(lines[&format!("ledger-negative/{id}")], line, "{id}");
    }
}

#[test]
fn only_a_known_head_tells_a_shortened_ledger_from_a_whole_one() {
    for id in ["tail-truncated", "last-rewritten", "emptied"] {
        assert!(check_ledger(&bytes(&format!("ledger-negative/{id}.jsonl")), None).unwrap().intact, "{id}");
    }
}

#[test]
fn the_ledger_of_a_run_has_the_hashes_of_its_rounds() {
    let run = &vectors("run", 1)[0];
    let expected = run.entry["expect"]["ledger"].as_array().unwrap();
    let ledger = check_ledger(&bytes("run/ledger.jsonl"), None).unwrap();
    assert!(ledger.intact);
    assert_eq!(ledger.records.len(), expected.len());
    for (hash, expected) in ledger.records.iter().zip(expected) {
        assert_eq!(hash.to_string(), expected["record_hash"].as_str().unwrap());
    }
}

#[test]
fn the_published_records() {
    let mut first = record(0, &["site-a", "site-b"], None);
    first.dataset_roots.insert("site-b".to_owned(), hash("2").parse().unwrap());
    first.global_model_hash = hash("3").parse().unwrap();
    assert_eq!(first.hash().to_string(), "0a03fe7837f8543c361eb35f4f8cc050bfc1aee15e99cf43a4a59df84f87b193");
    let mut second = record(1, &["site-a"], Some(first.hash()));
    second.global_model_hash = hash("4").parse().unwrap();
    assert_eq!(second.hash().to_string(), "2b103343157e8e4725cef8b13e8e9d365b4f4b06aab6540eb8808e4dc9fd3ffa");
}

#[test]
fn a_record_is_appended_only_where_it_belongs() {
    let tail = record(4, &["a"], None).hash();
    let other = record(5, &["a"], None).hash();
    let refused = |record: ContributionRecord, tail| record.follows(tail).unwrap_err().code();
    for (round, prev) in [(5, Some(other)), (5, None), (4, Some(tail)), (3, Some(tail))] {
        assert_eq!(refused(record(round, &["a"], prev), Some((&tail, 4))), ErrorCode::ProvenanceFailed);
    }
    assert_eq!(refused(record(0, &["a"], Some(tail)), None), ErrorCode::ProvenanceFailed);
    record(5, &["a"], Some(tail)).follows(Some((&tail, 4))).unwrap();
    record(9, &["a"], Some(tail)).follows(Some((&tail, 4))).unwrap();
    record(3, &["a"], None).follows(None).unwrap();

    // What Lensemble's own ledger does with the same.
    let appends = file("behaviour/ledger-append.json");
    let outcome = |id: &str| {
        let row = appends.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
        row["append"]["code"].clone()
    };
    for id in ["round-equal", "round-lower", "wrong-prev"] {
        assert_eq!(outcome(id), "provenance_failed");
    }
    assert!(outcome("right-prev").is_null());
}

#[test]
fn records_are_read_strictly() {
    let good = serde_json::to_value(file("ledger/one-record.jsonl")).unwrap();
    let without_prev = {
        let mut text = good.clone();
        text.as_object_mut().unwrap().remove("prev_record_hash");
        text.to_string()
    };
    let twice = good.to_string().replacen('{', r#"{"round_index":0,"#, 1);
    let empty_name = json!({
        "schema_version": 1, "round_index": 0, "participants": [""], "dataset_roots": {"": hash("1")},
        "global_model_hash": hash("2"), "prev_record_hash": null,
    });
    for text in [without_prev, twice, empty_name.to_string()] {
        assert_eq!(ContributionRecord::parse(text.as_bytes()).unwrap_err().code(), ErrorCode::MerkleVerifyFailed);
    }
}

#[test]
fn an_exported_line_is_one_line() {
    let record = record(0, &["a\u{85}", "b"], None);
    let pretty = record.line().replace(',', ",\n ");
    assert_eq!(ledger_line(&pretty, &record), record.line());
    let spaced = record.line().replace(',', ", ");
    assert_eq!(ledger_line(&format!(" {spaced}\r\n"), &record), spaced);
}

proptest! {
    #[test]
    fn a_line_has_no_end_inside_for_any_reader(names in proptest::collection::btree_set(
        proptest::collection::vec(prop_oneof![any::<char>(), proptest::sample::select(LINE_ENDS.to_vec())], 1..6), 1..4,
    )) {
        let mut names: Vec<String> = names.into_iter().map(|name| name.into_iter().collect()).collect();
        names.sort();
        names.dedup();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let record = record(7, &names, Some(RecordHash::from_bytes([9; 32])));
        let line = record.line();
        prop_assert!(!line.contains(LINE_ENDS));
        prop_assert_eq!(&ContributionRecord::parse(line.as_bytes()).unwrap(), &record);
        prop_assert_eq!(&ContributionRecord::parse(&record.canonical()).unwrap(), &record);
        prop_assert_eq!(ledger_line(&line, &record), line);
    }
}
