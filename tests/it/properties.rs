//! What holds for any input: any cut of a stream, any order of files, any flipped bit, any junk.
//!
//! The checks are those of the fuzz targets; here they run with a few hundred inputs each time.

#[path = "../../fuzz/src/checks.rs"]
mod checks;
#[path = "../../fuzz/src/documents.rs"]
mod documents;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::samples::Sample;

/// Golden checkpoints that differ in what matters here: one file or several, one element type or several, in and out of
/// order, empty tensors.
const SAMPLES: [&str; 9] = [
    "single-fp32",
    "encoder-predictor",
    "shards-3",
    "shards-7",
    "mixed-dtypes",
    "mixed-dtypes-sharded",
    "layout-shuffled",
    "shards-out-of-name-order",
    "zero-size",
];

fn artifact(name: &str) -> checks::Artifact {
    let sample = Sample::golden(name);
    checks::Artifact { header: sample.header, files: sample.files.into_iter().map(|(_, bytes)| bytes).collect() }
}

fn name() -> impl Strategy<Value = &'static str> {
    select(&SAMPLES[..])
}

/// A valid input with some damage: bytes overwritten, taken out, put in or cut off.
fn damaged(valid: &[u8], changes: &[(Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for (index, kind, value) in changes {
        let at = index.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match kind % 5 {
            _ if bytes.is_empty() => bytes.push(*value),
            0 => bytes[at] = *value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, *value),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(Index, u8, u8)>> {
    vec((any::<Index>(), 0..5u8, any::<u8>()), 0..4)
}

/// A safetensors file whose length field fits its text, whatever the text is.
fn framed(text: &[u8], body: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text, body].concat()
}

proptest! {
    #[test]
    fn the_decoder_does_not_care_for_cuts(name in name(), changes in changes()) {
        for file in &artifact(name).files {
            checks::decoder(&damaged(file, &changes));
        }
    }

    #[test]
    fn the_decoder_survives_junk(junk in vec(any::<u8>(), 0..300), text in "\\PC{0,60}") {
        checks::decoder(&junk);
        checks::decoder(&framed(text.as_bytes(), &junk));
        checks::decoder(&framed(format!("{{{text}}}").as_bytes(), &junk));
    }

    #[test]
    fn headers_of_containers_are_taken_only_when_safetensors_takes_them(
        entries in vec(("[a-c.]{0,3}", select(&["F32", "F16", "BF16", "I8"][..]), vec(0..4u64, 0..3), 0..20u64, 0..20u64), 0..4),
        honest: bool,
    ) {
        let mut at = 0;
        let items: Vec<String> = entries.iter().map(|(name, dtype, shape, begin, len)| {
            let size = shape.iter().product::<u64>() * if *dtype == "F32" { 4 } else { 2 };
            let (begin, end) = if honest { (at, at + size) } else { (*begin, begin + len) };
            at = end;
            format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}")
        }).collect();
        let body = vec![7; usize::try_from(at).unwrap()];
        checks::decoder(&framed(format!("{{{}}}", items.join(",")).as_bytes(), &body));
    }

    #[test]
    fn documents_are_read_or_refused(
        path in select(&["manifests/federated.json", "commitments/six-episodes.json", "reports/eval-full.json",
            "reports/drift.json", "reports/drift-record.jsonl", "configs/numbers.json"][..]),
        changes in changes(),
        junk in vec(any::<u8>(), 0..200),
        text in "[\\[\\]{}:,\"0-9a-z.eE+\\\\ -]{0,80}",
    ) {
        documents::document(&damaged(&crate::support::golden::bytes(path), &changes));
        documents::document(&junk);
        documents::document(text.as_bytes());
    }

    #[test]
    fn ledgers_are_read_or_refused(
        path in select(&["ledger/six-rounds.jsonl", "ledger/escapes.jsonl", "ledger/line-separator-id.jsonl"][..]),
        changes in changes(),
        name in "\\PC{1,12}",
    ) {
        let ledger = crate::support::golden::bytes(path);
        documents::ledger(&damaged(&ledger, &changes));
        let root = "b".repeat(64);
        let name = serde_json::to_string(&name).unwrap();
        let record = format!(
            r#"{{"schema_version":1,"round_index":0,"participants":[{name}],"dataset_roots":{{{name}:"{root}"}},"global_model_hash":"{root}","prev_record_hash":null}}"#
        );
        documents::ledger(record.as_bytes());
    }

    #[test]
    fn probes_do_not_care_for_cuts(
        path in select(&["probes/fp32.safetensors", "probes/bf16-points.safetensors"][..]),
        changes in changes(),
        cut in 0..700usize,
    ) {
        documents::probe(&damaged(&crate::support::golden::bytes(path), &changes), cut);
    }

    #[test]
    fn headers_are_read_or_refused(name in name(), changes in changes(), junk in vec(any::<u8>(), 0..200)) {
        checks::header(&damaged(&Sample::golden(name).header, &changes));
        checks::header(&junk);
    }

    /// Whatever stands in a header, a refusal does not repeat it.
    #[test]
    fn refusals_keep_what_they_have_read(field in 0..12usize, secret in "[a-z]{5}-[a-z0-9]{12,30}") {
        let text = String::from_utf8(Sample::golden("with-arch").header).unwrap();
        let quotes: Vec<usize> = text.match_indices(": ").map(|(at, _)| at).collect();
        let (before, after) = text.split_at(quotes[field % quotes.len()]);
        let replaced = after[2..].split_once([',', '\n']).map_or("", |(_, rest)| rest);
        let texts = [
            format!("{before}: \"{secret}\",{replaced}"),
            format!("{before}, \"{secret}\": 1,{replaced}"),
            format!("{{\"{secret}\": 1, {}", &text[1..]),
            text.replacen("encoder", &secret, 1),
        ];
        for text in texts {
            if let Err(error) = cairn::core::checkpoint::Header::parse(text.as_bytes(), &cairn::core::limits::Limits::DEFAULT) {
                prop_assert!(!error.to_string().contains(&secret), "{}", error);
            }
        }
    }

    #[test]
    fn archives_do_not_care_for_cuts(name in name(), changes in changes(), junk in vec(any::<u8>(), 0..1500)) {
        let archive = Sample::golden(name).archive();
        checks::tar(&damaged(&archive, &changes));
        checks::tar(&junk);
    }

    #[test]
    fn ranges_lie_inside(text in "(bytes|items)=[0-9]{0,21}-[0-9]{0,21}(,[0-9]-)?", size in prop_oneof![0..100u64, any::<u64>()]) {
        checks::range(&text, size);
    }

    #[test]
    fn any_text_is_a_range_or_none(text in "\\PC{0,40}", first in 0..120u64, last in 0..120u64, size in 0..100u64) {
        checks::range(&text, size);
        checks::range(&format!("bytes={first}-{last}"), size);
    }

    #[test]
    fn the_order_of_arrival_does_not_matter(name in name(), steps in vec(any::<u8>(), 0..80)) {
        checks::intake(&artifact(name), &steps);
    }

    #[test]
    fn one_flipped_bit_is_found(name in name(), at: usize) {
        checks::flipped_weights(artifact(name), at);
        checks::flipped_header(artifact(name), at);
    }
}

/// Of one small checkpoint, every single bit.
#[test]
fn every_flipped_bit_is_found() {
    let small = artifact("single-fp32");
    for at in 0..small.files[0].len() * 8 {
        checks::flipped_weights(artifact("single-fp32"), at);
    }
    for at in 0..small.header.len() * 8 {
        checks::flipped_header(artifact("single-fp32"), at);
    }
}
