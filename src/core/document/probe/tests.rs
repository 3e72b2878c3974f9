//! Probes against Lensemble's own files and the safetensors crate, and files that are none.

use std::collections::HashMap;

use proptest::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};

use super::*;
use crate::core::tests::{bytes, vectors};

fn read(file: &[u8], cuts: &[usize]) -> Result<Probe, DomainError> {
    let mut reader = ProbeReader::default();
    let mut rest = file;
    for cut in cuts {
        let (chunk, left) = rest.split_at((*cut).min(rest.len()));
        reader.push(chunk)?;
        rest = left;
    }
    reader.push(rest)?;
    reader.finish()
}

/// What makes a probe, to be changed before it is written.
#[derive(Clone, Debug)]
struct Parts {
    points: (Dtype, Vec<usize>),
    indices: Vec<i64>,
    targets: (Dtype, Vec<usize>),
    metadata: Vec<(&'static str, String)>,
}

impl Parts {
    /// The probe of the specification: points 0 to 3, indices 0 and 1, targets of ones.
    fn published() -> Self {
        Self {
            points: (Dtype::F32, vec![2, 2]),
            indices: vec![0, 1],
            targets: (Dtype::F32, vec![2, 1, 2]),
            metadata: vec![
                ("content_hash_algorithm", "sha256-lensemble-public-probe-v2".to_owned()),
                ("content_hash_version", "2".to_owned()),
                ("probe_version", "1".to_owned()),
            ],
        }
    }

    fn set(mut self, name: &'static str, value: &str) -> Self {
        self.metadata.retain(|(other, _)| *other != name);
        self.metadata.push((name, value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.metadata.retain(|(other, _)| *other != name);
        self
    }

    /// The file that the crate writes, and the two hashes by its own serialization.
    fn write(&self) -> (Vec<u8>, String, String) {
        let fill = |(dtype, shape): &(Dtype, Vec<usize>), value: &dyn Fn(usize) -> f32| -> Vec<u8> {
            let count: usize = shape.iter().product();
            match dtype {
                Dtype::F64 => (0..count).flat_map(|at| f64::from(value(at)).to_le_bytes()).collect(),
                Dtype::F32 => (0..count).flat_map(|at| value(at).to_le_bytes()).collect(),
                _ => vec![1; count * dtype.bitsize() / 8],
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
        let points = fill(&self.points, &|at| at as f32);
        let targets = fill(&self.targets, &|_| 1.0);
        let indices: Vec<u8> = self.indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let views = |names: &[&'static str]| -> Vec<(&'static str, TensorView<'_>)> {
            let view = |name| match name {
                "points" => TensorView::new(self.points.0, self.points.1.clone(), &points),
                "landmark_idx" => TensorView::new(Dtype::I64, vec![self.indices.len()], &indices),
                _ => TensorView::new(self.targets.0, self.targets.1.clone(), &targets),
            };
            names.iter().map(|name| (*name, view(name).unwrap())).collect()
        };
        let all = ["points", "landmark_targets", "landmark_idx"];
        let hash = |domain: &[u8], names| {
            let file = serialize(views(names), None).unwrap();
            ProbeHash::from_bytes(Sha256::digest(&[domain, &file].concat())).to_string()
        };
        let full = hash(b"lensemble.public-probe\0v2\0", &all);
        let source = hash(b"lensemble.probe-source\0v1\0", &["points", "landmark_idx"]);
        let mut metadata: HashMap<String, String> =
            self.metadata.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        metadata.entry("content_hash".to_owned()).or_insert_with(|| full.clone());
        (serialize(views(&all), Some(metadata)).unwrap(), full, source)
    }
}

#[test]
fn probes_are_lensembles() {
    for vector in vectors("probe", 2) {
        let probe = read(&vector.bytes(), &[]).unwrap();
        assert_eq!(probe.content_hash.to_string(), vector.entry["expect"]["content_hash"].as_str().unwrap());
        assert_eq!((probe.probe_version, probe.landmarks), (2, 3), "{}", vector.id);
        assert_eq!(probe.targets[0], probe.landmarks);
    }
    for vector in vectors("probe-negative", 1) {
        let error = read(&vector.bytes(), &[]).unwrap_err();
        assert_eq!(Some(error.code().as_str()), vector.refusal());
        let names: Vec<_> = error.fields().keys().map(AsRef::as_ref).collect();
        assert_eq!(names, ["d", "expected_hash", "got_hash", "num_landmarks"]);
    }
}

#[test]
fn the_published_probe() {
    let (file, full, source) = Parts::published().write();
    assert_eq!(full, "6910f039ceb1402c6ff92e11cdeb438b490e096384cda52620beb401fe1f66ca");
    assert_eq!(source, "dbfe9f821f478cdd16d09db63ef13b52a709562d7be12b77b60f50fb0b16011e");
    let probe = read(&file, &[]).unwrap();
    assert_eq!((probe.content_hash.to_string(), probe.source_hash.to_string()), (full, source));
    assert_eq!((probe.points, probe.targets, probe.landmarks), (vec![2, 2], [2, 1, 2], 2));
}

#[test]
fn only_the_pinned_probe_with_enough_landmarks_anchors_a_run() {
    let good = read(&Parts::published().write().0, &[]).unwrap();
    good.check_pin(&good.content_hash).unwrap();
    let other = ProbeHash::from_bytes([7; 32]);
    let mut parts = Parts::published();
    parts.targets.1 = vec![2, 1, 3];
    let poor = read(&parts.write().0, &[]).unwrap();
    for (probe, pin) in [(&good, &other), (&poor, &poor.content_hash), (&poor, &other)] {
        let error = probe.check_pin(pin).unwrap_err();
        assert_eq!(error.code(), CODE);
        assert_eq!(error.fields()["num_landmarks"], 2);
        assert_eq!(error.fields()["expected_hash"], pin.to_string());
    }
}

#[test]
fn what_is_no_probe_is_refused() {
    let good = Parts::published;
    let with = |change: &dyn Fn(&mut Parts)| {
        let mut parts = good();
        change(&mut parts);
        parts
    };
    let cases = [
        ("legacy", good().without("content_hash_algorithm").without("content_hash_version")),
        ("algorithm", good().set("content_hash_algorithm", "sha256-lensemble-probe-source-v1")),
        ("hash version", good().set("content_hash_version", "1")),
        ("other hash", good().set("content_hash", &"a".repeat(64))),
        ("no hash", good().set("content_hash", "")),
        ("version zero", good().set("probe_version", "0")),
        ("version 01", good().set("probe_version", "01")),
        ("version +1", good().set("probe_version", "+1")),
        ("no version", good().without("probe_version")),
        ("more metadata", good().set("format", "pt")),
        ("index above", with(&|parts| parts.indices = vec![0, 2])),
        ("index below", with(&|parts| parts.indices = vec![-1, 0])),
        ("fewer indices than targets", with(&|parts| parts.indices = vec![0])),
        ("targets of two dimensions", with(&|parts| parts.targets.1 = vec![2, 2])),
        ("no tokens", with(&|parts| parts.targets.1 = vec![2, 0, 2])),
        ("a scalar for points", with(&|parts| parts.points.1 = vec![])),
        ("no points", with(&|parts| parts.points.1 = vec![0, 2])),
        ("bytes for points", with(&|parts| parts.points.0 = Dtype::U8)),
        ("too many dimensions", with(&|parts| parts.points.1 = vec![2, 1, 1, 1, 1, 1, 1, 1, 1])),
    ];
    for (what, parts) in cases {
        let error = read(&parts.write().0, &[]).expect_err(what);
        assert_eq!(error.code(), CODE, "{what}: {error}");
    }
    let empty = with(&|parts| {
        parts.indices = vec![];
        parts.targets.1 = vec![0, 1, 0];
    });
    assert_eq!(read(&empty.write().0, &[]).unwrap_err().code(), CODE);
}

/// A file with this header and nothing but zeros for data.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn headers_are_read_strictly() {
    let file = Parts::published().write().0;
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    let header = std::str::from_utf8(&file[8..8 + length]).unwrap().trim_end().to_owned();
    let data = file.len() - 8 - length;
    let swapped = header.replace("[0,16]", "[A]").replace("[32,48]", "[0,16]").replace("[A]", "[32,48]");
    for (what, changed) in [
        ("another order", swapped),
        ("a gap", header.replace("[32,48]", "[33,49]")),
        ("an overlap", header.replace("[32,48]", "[31,47]")),
        ("another size", header.replace("[32,48]", "[32,47]")),
        ("an overflow", header.replace("\"shape\":[2,2]", "\"shape\":[4294967296,4294967296,0]")),
        ("a float", header.replace("[32,48]", "[32,48.0]")),
        ("a negative", header.replace("\"shape\":[2,2]", "\"shape\":[-2,-2]")),
        ("another type for indices", header.replace("I64", "U64")),
        ("a tensor missing", header.replace("\"points\"", "\"point\"")),
        ("a tensor more", header.replacen('{', "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},", 1)),
        (
            "a tensor twice",
            header.replacen('{', "{\"points\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},", 1),
        ),
        ("more in an entry", header.replacen("\"dtype\"", "\"x\":1,\"dtype\"", 1)),
        ("padding of another kind", format!("{header}\n")),
        ("blanks before", format!(" {header}")),
        ("no metadata", header.replace("__metadata__", "metadata")),
        ("no json", header.replace('{', "[")),
        ("nothing", String::new()),
    ] {
        assert_ne!(changed, header, "{what}");
        let error = read(&with_header(&changed, data), &[]).expect_err(what);
        assert_eq!(error.code(), CODE, "{what}: {error}");
        assert!(error.fields().get("got_hash").is_none(), "{what}: {error}");
    }
    // Another spelling of the same header is the same probe.
    let spaced = [&with_header(&format!("{}    ", header.replace(",\"", ", \"")), 0), &file[8 + length..]].concat();
    assert_eq!(read(&spaced, &[]), read(&file, &[]));

    assert!(ProbeReader::new(length as u64).push(&file).is_ok());
    for length in [length as u64, u64::MAX, u64::MAX - 7] {
        let mut reader = ProbeReader::new(64);
        let error = reader.push(&length.to_le_bytes()).unwrap_err();
        assert_eq!(error.code(), CODE);
        assert_eq!(reader.push(b"more").unwrap_err(), error);
        assert_eq!(reader.finish().unwrap_err(), error);
    }
}

#[test]
fn no_part_of_a_probe_is_one_and_nothing_may_follow() {
    let file = bytes("probes/bf16-points.safetensors");
    for len in 0..file.len() {
        assert_eq!(read(&file[..len], &[]).unwrap_err().code(), CODE, "{len}");
    }
    let mut longer = file.clone();
    longer.push(0);
    assert_eq!(read(&longer, &[]).unwrap_err().code(), CODE);
}

fn floats() -> impl Strategy<Value = Dtype> {
    proptest::sample::select(vec![Dtype::F64, Dtype::F32, Dtype::BF16, Dtype::F16])
}

proptest! {
    #[test]
    fn every_layout_of_the_writer_is_read_in_any_cut(
        points in (floats(), 1usize..5, 0usize..7),
        targets in (floats(), 1usize..4, 1usize..5),
        indices in proptest::collection::vec(0usize..5, 1..6),
        cuts in proptest::collection::vec(0usize..90, 0..40),
    ) {
                let parts = Parts {
            points: (points.0, vec![points.1, points.2]),
            indices: indices.iter().map(|index| i64::try_from(index % points.1).unwrap()).collect(),
            targets: (targets.0, vec![indices.len(), targets.1, targets.2]),
            ..Parts::published()
        };
        let (file, full, source) = parts.write();
        let probe = read(&file, &cuts).unwrap();
        prop_assert_eq!((probe.content_hash.to_string(), probe.source_hash.to_string()), (full, source));
    }

    #[test]
    fn a_broken_file_is_refused_the_same_in_any_cut(
        at in any::<proptest::sample::Index>(),
        change in 1u8..,
        more in 0usize..3,
        cuts in proptest::collection::vec(0usize..200, 0..20),
    ) {
        let mut file = bytes("probes/fp32.safetensors");
        let at = at.index(file.len());
        file[at] ^= change;
        file.resize(file.len() + more, 0);
        prop_assert_eq!(read(&file, &cuts), read(&file, &[]));
    }
}
