//! Bytes on their way from a connection to the disk.
//!
//! The connection's task only moves buffers into a short queue; one worker thread beside it checks, hashes and writes
//! them. The queue bounds memory: a slow disk or hash makes the connection wait, which makes the client wait.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::error::ServiceError;
use super::registry::{Registry, now_micros, random_key};
use super::session::{Session, Slot, lock, seal_file, seal_walks};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::FileIntake;
use crate::store::blob::BlobKey;
use crate::store::meta::upload::Progress;

/// Buffers between the connection and its worker. A connection hands over at most 1 MiB at a time, so a transfer holds
/// at most 8 MiB here.
pub(super) const QUEUE: usize = 8;

/// How the flow of a body ended.
#[derive(Debug)]
pub(super) enum BodyEnd {
    /// Every byte has arrived.
    Complete,
    /// The worker wants no more; its own answer says why.
    Refused,
    /// The connection broke or stood still.
    Cut(String),
    /// A newer writer has taken over.
    Evicted,
}

/// Moves a body into the queue until it ends, the worker stops, or `evicted` changes.
pub(super) async fn pump<S, E>(
    body: S,
    queue: mpsc::Sender<Bytes>,
    mut evicted: Option<watch::Receiver<u64>>,
    idle: std::time::Duration,
) -> BodyEnd
where
    S: Stream<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut evicted = std::pin::pin!(async move {
        match &mut evicted {
            // An error means that the session is gone, which cannot be while its worker lives.
            Some(claims) => drop(claims.changed().await),
            None => std::future::pending().await,
        }
    });
    loop {
        let frame = tokio::select! {
            biased;
            () = &mut evicted => return BodyEnd::Evicted,
            () = queue.closed() => return BodyEnd::Refused,
            frame = tokio::time::timeout(idle, body.next()) => frame,
        };
        match frame {
            Err(_) => return BodyEnd::Cut(format!("no byte arrived for {} seconds", idle.as_secs())),
            Ok(None) => return BodyEnd::Complete,
            Ok(Some(Err(error))) => return BodyEnd::Cut(error.to_string()),
            Ok(Some(Ok(bytes))) if bytes.is_empty() => {}
            Ok(Some(Ok(bytes))) => {
                if queue.send(bytes).await.is_err() {
                    return BodyEnd::Refused;
                }
            }
        }
    }
}

/// Takes the next bytes of a file: check, then write and hash at the same time. Blocks.
///
/// The check comes first, so that what is refused by its header never reaches the disk.
pub(super) fn take(
    registry: &Registry,
    session: &Session,
    slot: &mut Slot,
    position: usize,
    chunk: &Bytes,
) -> Result<(), ServiceError> {
    let start = slot.intake.seen();
    if slot.intake.check(chunk)? {
        if let Some(container) = slot.intake.container() {
            lock(&session.intake).place(position, container)?;
        }
        slot.intake.release_tensors();
        session.publish_fronts();
    }
    if slot.staged.is_none() {
        slot.staged = Some(registry.blobs.create(random_key()?).map_err(ServiceError::io("make a blob"))?);
    }
    let Slot { intake, staged: Some(staged), .. } = slot else { return Ok(()) };
    if start == 0
        && let Some(len) = intake.expected_len()
    {
        staged.reserve(len).map_err(ServiceError::io("reserve space for the file"))?;
    }
    staged.append(chunk.clone()).map_err(ServiceError::io("write the file"))?;
    registry.metrics.upload_bytes.inc_by(chunk.len() as u64);
    if session.wants(position, start, chunk.len() as u64) {
        lock(&session.intake).absorb(position, start, chunk, Some(intake));
        session.publish_fronts();
    } else {
        intake.hash(chunk);
    }
    Ok(())
}

/// Forgets what a file has received, so that it can be sent anew; the key of what lies on the disk.
pub(super) fn reset(registry: &Registry, session: &Session, slot: &mut Slot, position: usize) -> Option<BlobKey> {
    slot.intake = FileIntake::new(&session.header, position, None, &registry.options.limits);
    slot.declared = None;
    if position < session.header.weight_files.len() {
        lock(&session.intake).forget(position);
    }
    session.publish_fronts();
    slot.staged.take().map(|staged| staged.key().clone())
}

/// Receives one file of a session on a worker thread.
pub(super) struct Receiver {
    pub(super) registry: Arc<Registry>,
    pub(super) session: Arc<tokio::sync::OnceCell<Session>>,
    pub(super) slot: tokio::sync::OwnedMutexGuard<Slot>,
    pub(super) position: usize,
}

impl Receiver {
    /// Starts the worker; it ends when the queue is closed and answers with the durable length.
    pub(super) fn start(self, queue: mpsc::Receiver<Bytes>) -> JoinHandle<Result<u64, ServiceError>> {
        let (runtime, span) = (Handle::current(), tracing::Span::current());
        tokio::task::spawn_blocking(move || span.in_scope(|| self.run(queue, &runtime)))
    }

    fn run(mut self, mut queue: mpsc::Receiver<Bytes>, runtime: &Handle) -> Result<u64, ServiceError> {
        let registry = Arc::clone(&self.registry);
        let cell = Arc::clone(&self.session);
        let Some(session) = cell.get() else { return Err(ServiceError::Cut("the session is gone".to_owned())) };
        let mut checkpoint: Option<JoinHandle<()>> = None;
        let mut saved = self.slot.intake.seen();
        while let Some(chunk) = queue.blocking_recv() {
            if let Err(error) = take(&registry, session, &mut self.slot, self.position, &chunk) {
                queue.close();
                if error.domain().is_none() {
                    // The disk or the database failed: what is durable stays, and memory is no longer to be trusted.
                    registry.forget_session(session);
                    return Err(error);
                }
                let key = reset(&registry, session, &mut self.slot, self.position);
                runtime.block_on(self.save(session, None))?;
                runtime.block_on(registry.discard(key.into_iter().collect()));
                return Err(error);
            }
            let seen = self.slot.intake.seen();
            if seen - saved >= registry.options.checkpoint_bytes
                && checkpoint.as_ref().is_none_or(JoinHandle::is_finished)
            {
                saved = seen;
                checkpoint = self.checkpoint(session, runtime)?;
            }
        }
        if let Some(checkpoint) = checkpoint {
            runtime.block_on(checkpoint)?;
        }
        self.park(session, runtime)
    }

    /// Makes what has arrived durable and saves how far the file has come.
    fn park(&mut self, session: &Session, runtime: &Handle) -> Result<u64, ServiceError> {
        let Slot { intake, staged: Some(staged), .. } = &mut *self.slot else { return Ok(0) };
        staged.sync().map_err(ServiceError::io("make the file durable"))?;
        let stamp = staged.stamp().map_err(ServiceError::io("look at the file"))?;
        let stored = staged.len();
        let state = session.id.as_deref().map(|id| seal_file(id, intake, &stamp));
        if runtime.block_on(self.save(session, state))? {
            return Ok(stored);
        }
        Err(ServiceError::Conflict(DomainError::new(
            ErrorCode::RegistryUploadState,
            "a newer writer has taken over this file, or the session is over",
        )))
    }

    /// Makes what has arrived durable beside the flow, and saves only how far that is: the hash states of a file that
    /// goes on growing would not be believed after a crash anyway.
    fn checkpoint(&mut self, session: &Session, runtime: &Handle) -> Result<Option<JoinHandle<()>>, ServiceError> {
        let (Some(id), Some(staged)) = (session.id.clone(), &mut self.slot.staged) else { return Ok(None) };
        staged.enter().map_err(ServiceError::io("make the file durable"))?;
        let file = staged.handle().map_err(ServiceError::io("open the file again"))?;
        let progress = self.progress(session, None);
        let registry = Arc::clone(&self.registry);
        let save = async move {
            let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
            // A checkpoint that fails costs nothing but a longer way back after a crash.
            match synced {
                Ok(Ok(())) => {
                    if let Err(error) = registry.meta.save_progress(&id, &progress).await {
                        tracing::warn!(?error, upload.id = id, "progress could not be saved");
                    }
                }
                failed => tracing::warn!(?failed, upload.id = id, "progress could not be made durable"),
            }
        };
        Ok(Some(runtime.spawn(save.in_current_span())))
    }

    fn progress(&self, session: &Session, digest_state: Option<Vec<u8>>) -> Progress {
        let id = session.id.as_deref().unwrap_or_default();
        let lifetime = i64::try_from(self.registry.options.session_lifetime.as_micros()).unwrap_or(i64::MAX);
        Progress {
            position: self.position,
            writer: self.slot.writer,
            key: self.slot.staged.as_ref().map(|staged| staged.key().to_string()),
            stored: self.slot.intake.seen(),
            length: self.slot.intake.expected_len().or(self.slot.declared),
            digest_state,
            walks: seal_walks(id, lock(&session.intake).save()),
            expires_at: now_micros().saturating_add(lifetime),
        }
    }

    async fn save(&self, session: &Session, digest_state: Option<Vec<u8>>) -> Result<bool, ServiceError> {
        let Some(id) = session.id.as_deref() else { return Ok(true) };
        Ok(self.registry.meta.save_progress(id, &self.progress(session, digest_state)).await?)
    }
}
