//! The public probe of a run: a safetensors file of any size, hashed while it is written.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::document::compare::check_probe;
use super::document::view;
use super::error::ServiceError;
use super::fetch::Fetched;
use super::receive::{BodyEnd, QUEUE, pump};
use super::registry::{Registry, now_micros, random_key};
use super::run::no_run;
use crate::api::run::Document as View;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::document::kind::PUBLIC_PROBE;
use crate::core::document::probe::{Probe, ProbeReader};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::run::Name;
use crate::core::sha256::Sha256;
use crate::store::blob::BlobKey;
use crate::store::meta::artifact::FileRow;
use crate::store::meta::document::{DocumentBytes, DocumentRow, Keeping, NewDocument};
use crate::store::meta::publish::ReadyBlob;

/// The schema version of a probe: the one of its hash.
const VERSION: u32 = 2;

/// A probe that lies in the store and that no row refers to yet.
struct Received {
    probe: Probe,
    digest: BlobDigest,
    len: u64,
    ready: ReadyBlob,
}

impl Registry {
    /// Keeps the public probe of a run; whether it is new.
    ///
    /// # Errors
    /// `probe_invalid` when it is none, or another than the run is pinned to; then nothing stays behind.
    pub async fn keep_probe<S, E>(self: &Arc<Self>, run: &Name, body: S) -> Result<(View, bool), ServiceError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: std::fmt::Display,
    {
        self.run_row(run).await?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let (tell_end, end) = tokio::sync::oneshot::channel();
        // On a task of its own: when the client goes away, what lies on the disk must not be left without an owner.
        let (registry, name) = (Arc::clone(self), run.clone());
        let task = tokio::spawn(
            async move {
                let receiving = Arc::clone(&registry);
                let (key, received) = tokio::task::spawn_blocking(move || receiving.receive_probe(queue)).await?;
                let kept = match (received, end.await) {
                    (Err(error), _) => Err(error),
                    (Ok(received), Ok(BodyEnd::Complete)) => registry.keep_received(&name, received).await,
                    (Ok(_), Ok(BodyEnd::Cut(why))) => Err(ServiceError::Cut(why)),
                    (Ok(_), _) => Err(ServiceError::Cut("the client went away".to_owned())),
                };
                if let Err(error) = &kept {
                    registry.discard_unused(key.into_iter().collect()).await;
                    if let Some(error) = error.domain() {
                        registry.witness(error, None).await;
                    }
                }
                kept
            }
            .in_current_span(),
        );
        let outcome = pump(body, sender, None, self.options.body_idle).await;
        // The task may have ended already, with a refusal.
        let _ = tell_end.send(outcome);
        task.await?
    }

    /// Checks, hashes and writes what arrives; the key comes back even when it is refused. Blocks.
    fn receive_probe(&self, mut queue: mpsc::Receiver<Bytes>) -> (Option<BlobKey>, Result<Received, ServiceError>) {
        let mut staged =
            match random_key().and_then(|key| self.blobs.create(key).map_err(ServiceError::io("make a blob"))) {
                Ok(staged) => staged,
                Err(error) => return (None, Err(error)),
            };
        let key = staged.key().clone();
        let mut receive = || {
            let (mut reader, mut hasher) = (ProbeReader::default(), Sha256::new());
            while let Some(chunk) = queue.blocking_recv() {
                reader.push(&chunk).inspect_err(|_| queue.close())?;
                staged.append(chunk.clone()).map_err(ServiceError::io("write the file"))?;
                hasher.update(&chunk);
            }
            let len = hasher.len();
            let probe = reader.finish()?;
            staged.sync().map_err(ServiceError::io("make the file durable"))?;
            let stamp = staged.stamp().map_err(ServiceError::io("look at the file"))?;
            let ready = ReadyBlob { key: key.to_string(), stamp: stamp.as_str().to_owned(), replaces: None };
            Ok(Received { probe, digest: BlobDigest::from_bytes(hasher.finalize()), len, ready })
        };
        let received = receive();
        (Some(key), received)
    }

    async fn keep_received(&self, run: &Name, received: Received) -> Result<(View, bool), ServiceError> {
        let Received { probe, digest, len, ready } = received;
        let row = self.run_row(run).await?;
        check_probe(&row.pins, Some(probe.content_hash))?;
        if let Some(pin) = &row.pins.probe_hash {
            probe.check_pin(pin)?;
        }
        if row.pins.probe_version.is_some_and(|version| version != probe.probe_version) {
            let error =
                DomainError::new(ErrorCode::ProbeInvalid, "the probe has another version than the run is pinned to");
            return Err(ServiceError::Conflict(
                error.field("expected", row.pins.probe_version).field("got", probe.probe_version),
            ));
        }
        let summary = json!({
            "content_hash": probe.content_hash,
            "source_hash": probe.source_hash,
            "probe_version": probe.probe_version,
            "landmarks": probe.landmarks,
        })
        .to_string();
        let new = NewDocument {
            kind: PUBLIC_PROBE,
            digest,
            schema_version: VERSION,
            size: len,
            bytes: DocumentBytes::Stored(&ready),
            summary: &summary,
            at: now_micros(),
        };
        let told = |row: &DocumentRow| {
            let data =
                json!({"run": run.as_str(), "kind": row.kind, "digest": row.digest, "probe_hash": probe.content_hash});
            ("probe.verified", data.to_string())
        };
        match self.meta.keep_document(run, &new, None, told).await? {
            Keeping::NoRun => Err(no_run()),
            Keeping::Refused(error) => Err(ServiceError::Conflict(error)),
            Keeping::Done { row, created, unused } => {
                self.shelf.forget(std::iter::once(digest));
                self.discard(unused.as_deref().and_then(BlobKey::parse).into_iter().collect()).await;
                if created {
                    self.news.tell(run);
                    tracing::info!(run.id = %run, document.kind = PUBLIC_PROBE, document.digest = %digest, "probe kept");
                }
                Ok((view(run, row), created))
            }
        }
    }

    /// A run's public probe.
    pub(super) async fn fetch_probe(&self, run: &Name, digest: BlobDigest) -> Result<Fetched, ServiceError> {
        let missing = || ServiceError::not_found("a document of this kind and digest");
        self.meta.document(run, PUBLIC_PROBE, digest).await?.ok_or_else(missing)?;
        let blob = self.meta.blob(digest).await?.ok_or_else(missing)?;
        let file = FileRow { name: "probe.safetensors".to_owned(), digest, blob };
        // No artifact holds it, so there is none to forget when the file is found damaged.
        let none = ContentHash::from_bytes([0; 32]);
        let open = self.open_blob(none, &file).await?;
        Ok(Fetched::file(open, file.blob.size, digest, file.name))
    }
}
