//! Figures for Prometheus: what has happened since the start, and what is stored now.
//!
//! All names begin with `registry_`; the names of Lensemble's own metrics are never reused.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry as Figures, Unit};

use super::error::ServiceError;
use super::registry::Registry;
use crate::core::error::ErrorCode;

/// The media type of the answer.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the durations that are told apart, in seconds.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// A request as far as figures tell requests apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    /// The pattern of the path, never the path.
    route: String,
    method: String,
    status: u16,
}

/// A refusal by its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    code: Code,
}

/// An error code as a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Code(ErrorCode);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

/// The figures of one registry.
#[derive(Debug)]
pub struct Metrics {
    figures: Figures,
    requests: Family<Request, Counter>,
    request_seconds: Histogram,
    refusals: Family<Refusal, Counter>,
    /// Bytes of weight files taken in.
    pub(super) upload_bytes: Counter,
    /// Bytes of stored files given to connections.
    pub(super) download_bytes: Counter,
    /// Rounds committed.
    pub(super) commits: Counter,
    /// Rounds given up.
    pub(super) aborts: Counter,
    /// How long commits took, those included that were refused.
    pub(super) commit_seconds: Histogram,
    /// How long it took to judge complete uploads.
    pub(super) verify_seconds: Histogram,
    artifacts: Gauge<i64>,
    runs: Gauge<i64>,
    open_sessions: Gauge<i64>,
    stored_bytes: Gauge<i64>,
    staged_bytes: Gauge<i64>,
    dedup_ratio: Gauge<f64, AtomicU64>,
}

/// A histogram of seconds.
fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self {
            figures: Figures::with_prefix("registry"),
            requests: Family::default(),
            request_seconds: seconds(),
            refusals: Family::default(),
            upload_bytes: Counter::default(),
            download_bytes: Counter::default(),
            commits: Counter::default(),
            aborts: Counter::default(),
            commit_seconds: seconds(),
            verify_seconds: seconds(),
            artifacts: Gauge::default(),
            runs: Gauge::default(),
            open_sessions: Gauge::default(),
            stored_bytes: Gauge::default(),
            staged_bytes: Gauge::default(),
            dedup_ratio: Gauge::default(),
        };
        metrics.describe();
        metrics
    }

    fn describe(&mut self) {
        let of = &mut self.figures;
        of.register("requests", "Requests answered, by route, method and status", self.requests.clone());
        of.register_with_unit("request", "Time to the head of an answer", Unit::Seconds, self.request_seconds.clone());
        of.register("refusals", "Refusals that must never be swallowed, by code", self.refusals.clone());
        of.register_with_unit("upload", "Weight files taken in", Unit::Bytes, self.upload_bytes.clone());
        of.register_with_unit("download", "Stored files given out", Unit::Bytes, self.download_bytes.clone());
        of.register("commits", "Rounds committed", self.commits.clone());
        of.register("aborts", "Rounds given up", self.aborts.clone());
        of.register_with_unit("commit", "Time that commits took", Unit::Seconds, self.commit_seconds.clone());
        of.register_with_unit(
            "verify",
            "Time to read back, judge and make durable a complete upload",
            Unit::Seconds,
            self.verify_seconds.clone(),
        );
        of.register("artifacts", "Artifacts stored", self.artifacts.clone());
        of.register("runs", "Runs registered", self.runs.clone());
        of.register("open_sessions", "Upload sessions that can be continued", self.open_sessions.clone());
        of.register_with_unit(
            "stored",
            "Files that artifacts and documents refer to",
            Unit::Bytes,
            self.stored_bytes.clone(),
        );
        of.register_with_unit("staged", "Files of open upload sessions", Unit::Bytes, self.staged_bytes.clone());
        of.register("dedup_ratio", "Bytes of all artifacts for each stored byte", self.dedup_ratio.clone());
    }

    /// A request was answered.
    pub fn answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        // Only methods that are known are told apart: a client may invent them.
        let known = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"];
        let method = known.into_iter().find(|known| *known == method).unwrap_or("other").to_owned();
        let route = if route.is_empty() { "none".to_owned() } else { route.to_owned() };
        self.requests.get_or_create(&Request { route, method, status }).inc();
        self.request_seconds.observe(took.as_secs_f64());
    }

    /// Bytes of a stored file are on their way to a client.
    pub fn given_out(&self, bytes: u64) {
        self.download_bytes.inc_by(bytes);
    }

    /// Something was refused that must never be swallowed.
    pub(super) fn refused(&self, code: ErrorCode) {
        self.refusals.get_or_create(&Refusal { code: Code(code) }).inc();
    }
}

impl Registry {
    /// The figures of this registry.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The figures as text, with what is stored right now.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn metrics_text(&self) -> Result<String, ServiceError> {
        let metrics = &self.metrics;
        let stock = self.meta.stock().await?;
        metrics.artifacts.set(stock.artifacts);
        metrics.runs.set(stock.runs);
        metrics.open_sessions.set(stock.open_sessions);
        metrics.stored_bytes.set(stock.stored_bytes);
        metrics.staged_bytes.set(stock.staged_bytes);
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = if stock.stored_bytes > 0 { stock.artifact_bytes as f64 / stock.stored_bytes as f64 } else { 1.0 };
        metrics.dedup_ratio.set(ratio);
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &metrics.figures);
        Ok(text)
    }
}
