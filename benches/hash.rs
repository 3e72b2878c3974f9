//! How fast an artifact is verified, as a ratio to plain SHA-256 of the same bytes in the same run.
//!
//! ```text
//! cargo bench --bench hash --no-default-features
//! ```
//!
//! Absolute figures of two runs cannot be compared on a shared machine, ratios of one run can. The bench fails when all
//! three digests together (H1, H2, H4) fall below half the rate of one: then the lanes are not interleaved, a build is
//! optimised for size, or something is copied. `CAIRN_BENCH_RATIO` sets another bound; 0 never fails.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints, and stops where it cannot go on")]
#![expect(clippy::cast_precision_loss, reason = "rates are rounded anyway")]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn::core::checkpoint::Header;
use cairn::core::intake::{FileIntake, Intake, Verified};
use cairn::core::limits::Limits;
use cairn::core::safetensors::header::Container;
use sha2::Digest as _;

/// What a connection hands over at a time.
const CHUNK: usize = 512 << 10;

/// Tensors of a ViT-L encoder with its predictor.
const TENSORS: usize = 447;

/// Repetitions; the best of each kind counts, since others on the machine only ever slow a run down.
const REPETITIONS: usize = 5;

const MIB: f64 = 1_048_576.0;

fn main() -> ExitCode {
    // `cargo test --benches` runs this too, without optimisation and without the argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let bound = std::env::var("CAIRN_BENCH_RATIO").map_or(0.5, |text| text.parse().unwrap());
    let mut slowest = f64::MAX;
    println!("{:>8}  {:>10}  {:>10}  {:>6}", "MiB", "sha2 MB/s", "all MB/s", "ratio");
    for mib in [64, 256] {
        let ratio = digests(mib << 20);
        slowest = slowest.min(ratio);
    }
    headers(100_000);
    if slowest < bound {
        println!(
            "too slow: H1, H2 and H4 together run at {slowest:.2} of the rate of one SHA-256; at least {bound:.2}"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Measures one checkpoint of about `size` bytes.
fn digests(size: usize) -> f64 {
    let checkpoint = Checkpoint::new(size, TENSORS);
    let (mut plain, mut all) = (Duration::MAX, Duration::MAX);
    for _ in 0..REPETITIONS {
        plain = plain.min(time(|| {
            let mut hasher = sha2::Sha256::new();
            checkpoint.weights.chunks(CHUNK).for_each(|chunk| hasher.update(chunk));
            hasher.finalize()
        }));
        all = all.min(time(|| take_in(&checkpoint.header, &checkpoint.weights).unwrap()));
    }
    let rate = |time: Duration| checkpoint.weights.len() as f64 / 1e6 / time.as_secs_f64();
    let ratio = plain.as_secs_f64() / all.as_secs_f64();
    println!("{:>8}  {:>10.0}  {:>10.0}  {ratio:>6.2}", size >> 20, rate(plain), rate(all));
    ratio
}

fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let outcome = std::hint::black_box(run());
    let time = start.elapsed();
    drop(outcome);
    time
}

/// One file as it arrives, to the end; on a wrong hash, the right one.
fn take_in(header: &[u8], weights: &[u8]) -> Result<Verified, String> {
    let header = Arc::new(Header::parse(header, &Limits::DEFAULT).unwrap());
    let mut intake = Intake::new(Arc::clone(&header));
    let mut file = FileIntake::new(&header, 0, Some(weights.len() as u64), &Limits::DEFAULT);
    for chunk in weights.chunks(CHUNK) {
        let at = file.seen();
        if file.check(chunk).unwrap() {
            intake.place(0, file.container().unwrap()).unwrap();
        }
        intake.absorb(0, at, chunk, Some(&mut file));
    }
    assert!(intake.pending().is_none(), "the layout is in order, so one pass is enough");
    intake.finish(&[&file], None).map_err(|error| error.fields()["got_hash"].as_str().unwrap().to_owned())
}

/// A checkpoint in canonical order, half of it encoder.
struct Checkpoint {
    header: Vec<u8>,
    weights: Vec<u8>,
}

impl Checkpoint {
    fn new(size: usize, tensors: usize) -> Self {
        let elements = size / tensors / 4;
        let names = names(tensors);
        let mut weights = container(&names, elements);
        let start = weights.len();
        weights.resize(start + tensors * elements * 4, 0);
        let mut state = 1u64;
        for bytes in weights[start..].chunks_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.copy_from_slice(&state.to_le_bytes()[..bytes.len()]);
        }
        // The hash is told by the refusal of a wrong one.
        let got = take_in(&header(&names, elements, &"0".repeat(64)), &weights).unwrap_err();
        Self { header: header(&names, elements, &got), weights }
    }
}

fn names(count: usize) -> Vec<String> {
    let group = |index| if index < count / 2 { "encoder" } else { "predictor" };
    (0..count).map(|index| format!("{}.blocks.{index:06}.attn.qkv.weight", group(index))).collect()
}

/// The length and the JSON text of a safetensors file.
fn container(names: &[String], elements: usize) -> Vec<u8> {
    let mut json = String::from("{");
    for (index, name) in names.iter().enumerate() {
        let (comma, begin) = (if index > 0 { "," } else { "" }, index * elements * 4);
        let end = begin + elements * 4;
        write!(json, "{comma}\"{name}\":{{\"dtype\":\"F32\",\"shape\":[{elements}],\"data_offsets\":[{begin},{end}]}}")
            .unwrap();
    }
    json.push('}');
    [&(json.len() as u64).to_le_bytes(), json.as_bytes()].concat()
}

/// `header.json` of the checkpoint.
fn header(names: &[String], elements: usize, content_hash: &str) -> Vec<u8> {
    let entry = |name: &String| {
        let group = name.split('.').next().unwrap();
        format!("{{\"name\":\"{name}\",\"group\":\"{group}\",\"dtype\":\"float32\",\"shape\":[{elements}]}}")
    };
    format!(
        "{{\"schema_version\":2,\"content_hash\":\"{content_hash}\",\"parent_hash\":null,\"wmcp_version\":\"wmcp-1.0.0\",\
         \"round_index\":0,\"config_hash\":\"{}\",\"param_groups\":[\"encoder\",\"predictor\"],\"tensor_manifest\":[{}],\
         \"weight_files\":[\"weights.safetensors\"],\"created_at\":\"2026-01-01T00:00:00Z\",\"model_arch\":null}}",
        "0".repeat(64),
        names.iter().map(entry).collect::<Vec<_>>().join(","),
    )
    .into_bytes()
}

/// Reading the headers of a checkpoint with as many tensors as are allowed: time, and memory above what was there.
fn headers(count: usize) {
    let names = names(count);
    let (container, header) = (container(&names, 1), header(&names, 1, &"0".repeat(64)));
    println!("\n{:>8}  {:>16}  {:>6}  {:>8}", "tensors", "", "ms", "peak MiB");
    let line = |what: &str, bytes: usize, read: &dyn Fn()| {
        let mut best = Duration::MAX;
        let before = memory("VmRSS");
        // 5 lets the kernel forget the peak so far.
        let forgotten = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        for _ in 0..REPETITIONS {
            best = best.min(time(read));
        }
        let peak = memory("VmHWM").zip(before).filter(|_| forgotten);
        let peak =
            peak.map_or_else(|| "?".to_owned(), |(peak, before)| (peak.saturating_sub(before) >> 10).to_string());
        println!(
            "{count:>8}  {what:>16}  {:>6}  {peak:>8}   ({:.1} MiB of text)",
            best.as_millis(),
            bytes as f64 / MIB
        );
    };
    line("safetensors", container.len(), &|| drop(Container::parse(&container[8..], &Limits::DEFAULT).unwrap()));
    line("header.json", header.len(), &|| drop(Header::parse(&header, &Limits::DEFAULT).unwrap()));
    let parsed = Arc::new(Header::parse(&header, &Limits::DEFAULT).unwrap());
    line("what is hashed", header.len(), &|| drop(Intake::new(Arc::clone(&parsed))));
}

/// A figure of this process in KiB.
fn memory(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}
