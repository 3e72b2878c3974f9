//! An artifact in one request: the tar of its directory.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

use super::error::ServiceError;
use super::finish::{Finished, Slots, check_complete, judge, staged_keys, wrong_address};
use super::receive::{BodyEnd, QUEUE, pump, take};
use super::registry::Registry;
use super::session::Session;
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::intake::{FileIntake, Verified};
use crate::core::tar::{Decoder, Event};
use crate::store::blob::BlobKey;
use crate::store::meta::publish::{HeaderText, ReadyBlob};

/// What has come out of the archive so far.
enum Stage {
    /// Nothing.
    Start,
    /// Bytes of `header.json`, which has to be the first member.
    Header { text: Vec<u8>, size: u64 },
    /// The header and the files behind it.
    Files { header_text: Vec<u8>, session: Box<Session>, slots: Slots, current: Option<usize> },
}

/// Unpacks one archive on a worker thread.
struct Unpacker {
    registry: Arc<Registry>,
    asked: ContentHash,
    decoder: Decoder,
    stage: Stage,
}

impl Registry {
    /// Takes in a whole artifact directory as an uncompressed tar; `asked` is the hash in the path.
    ///
    /// # Errors
    /// When anything about it is not as the header says; then nothing stays behind.
    pub async fn put_artifact<S, E>(self: &Arc<Self>, asked: ContentHash, body: S) -> Result<Finished, ServiceError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: std::fmt::Display,
    {
        let (sender, queue) = mpsc::channel(QUEUE);
        let (tell_end, end) = oneshot::channel();
        let unpacker = Unpacker { registry: Arc::clone(self), asked, decoder: Decoder::new(), stage: Stage::Start };
        // On a task of its own: when the client goes away, this future is dropped, but what lies on the disk must not
        // be left without an owner.
        let task = tokio::spawn(Arc::clone(self).unpack_and_judge(unpacker, queue, end).in_current_span());
        let outcome = pump(body, sender, None, self.options.body_idle).await;
        // The task may have ended already, with a refusal.
        let _ = tell_end.send(outcome);
        task.await?
    }

    async fn unpack_and_judge(
        self: Arc<Self>,
        unpacker: Unpacker,
        queue: mpsc::Receiver<Bytes>,
        end: oneshot::Receiver<BodyEnd>,
    ) -> Result<Finished, ServiceError> {
        let asked = unpacker.asked;
        let (unpacker, unpacked) = tokio::task::spawn_blocking(move || unpacker.run(queue)).await?;
        let keys = unpacker.staged();
        let result = match unpacked {
            Err(error) => Err(error),
            Ok(()) => match end.await {
                Ok(BodyEnd::Complete) => self.judge_archive(unpacker).await,
                Ok(BodyEnd::Cut(why)) => Err(ServiceError::Cut(why)),
                _ => Err(ServiceError::Cut("the client went away".to_owned())),
            },
        };
        if let Err(error) = &result {
            self.discard_unused(keys).await;
            if let ServiceError::Refused(error) = error {
                self.witness(error, Some(asked)).await;
            }
        }
        result
    }

    async fn judge_archive(&self, unpacker: Unpacker) -> Result<Finished, ServiceError> {
        let start = Instant::now();
        let judged = tokio::task::spawn_blocking(move || unpacker.finish()).await??;
        self.metrics.verify_seconds.observe(start.elapsed().as_secs_f64());
        let header = (HeaderText::Here(&judged.header_text), judged.header_digest);
        self.publish(&judged.verified, header, judged.blobs).await
    }
}

impl Unpacker {
    fn run(mut self, mut queue: mpsc::Receiver<Bytes>) -> (Self, Result<(), ServiceError>) {
        while let Some(chunk) = queue.blocking_recv() {
            if let Err(error) = self.unpack(&chunk) {
                queue.close();
                return (self, Err(error));
            }
        }
        (self, Ok(()))
    }

    fn unpack(&mut self, chunk: &Bytes) -> Result<(), ServiceError> {
        let mut input: &[u8] = chunk;
        loop {
            match self.decoder.next(&mut input)? {
                Event::NeedMore => return Ok(()),
                Event::End => {}
                Event::File { name, size } => self.begin(&name, size)?,
                Event::Data(data) => self.data(&chunk.slice_ref(data))?,
            }
        }
    }

    fn begin(&mut self, name: &str, size: u64) -> Result<(), ServiceError> {
        let limits = &self.registry.options.limits;
        match &mut self.stage {
            Stage::Start if name == "header.json" => {
                if size > limits.header_bytes {
                    return Err(too_large("header.json is larger than a header may be", limits.header_bytes, size));
                }
                self.stage = Stage::Header { text: Vec::new(), size };
                if size == 0 { self.data(&Bytes::new()) } else { Ok(()) }
            }
            Stage::Start => Err(DomainError::invalid("header.json is not the first file of the archive").into()),
            Stage::Header { .. } => Err(DomainError::invalid("header.json is empty").into()),
            Stage::Files { session, slots, current, .. } => {
                let Some(position) = session.position(name) else {
                    return Err(DomainError::integrity("the archive holds a file that the header does not list")
                        .field("file", name)
                        .into());
                };
                if size > limits.file_bytes {
                    return Err(too_large("a weight file is larger than one file may be", limits.file_bytes, size));
                }
                if slots[position].declared.is_some() {
                    return Err(DomainError::invalid("the archive holds a file twice").field("file", name).into());
                }
                slots[position].declared = Some(size);
                slots[position].intake = FileIntake::new(&session.header, position, Some(size), limits);
                *current = Some(position);
                if size == 0 {
                    return Err(DomainError::integrity("a file of the archive is empty").field("file", name).into());
                }
                Ok(())
            }
        }
    }

    fn data(&mut self, data: &Bytes) -> Result<(), ServiceError> {
        match &mut self.stage {
            // No file has begun, so there are no bytes of one.
            Stage::Start | Stage::Files { current: None, .. } => Ok(()),
            Stage::Header { text, size } => {
                text.extend_from_slice(data);
                if (text.len() as u64) < *size {
                    return Ok(());
                }
                let text = std::mem::take(text);
                let limits = &self.registry.options.limits;
                let header = Arc::new(Header::parse(&text, limits)?);
                if header.content_hash != self.asked {
                    return Err(wrong_address(self.asked, header.content_hash).into());
                }
                let session = Box::new(Session::new(None, header, BlobDigest::of(&text), limits));
                let slots = session
                    .slots
                    .iter()
                    .map(|slot| Arc::clone(slot).try_lock_owned())
                    .collect::<Result<_, _>>()
                    .map_err(|_| ServiceError::Cut("the upload is busy".to_owned()))?;
                self.stage = Stage::Files { header_text: text, session, slots, current: None };
                Ok(())
            }
            Stage::Files { session, slots, current: Some(position), .. } => {
                take(&self.registry, session, &mut slots[*position], *position, data)
            }
        }
    }

    fn staged(&self) -> Vec<BlobKey> {
        match &self.stage {
            Stage::Files { slots, .. } => staged_keys(slots),
            _ => Vec::new(),
        }
    }

    fn finish(self) -> Result<Judged, ServiceError> {
        self.decoder.finish()?;
        match self.stage {
            Stage::Start => Err(DomainError::invalid("the archive is empty; header.json is missing").into()),
            Stage::Header { .. } => Err(DomainError::invalid("the archive ends inside header.json").into()),
            Stage::Files { header_text, session, mut slots, .. } => {
                check_complete(&session, &slots)?;
                let (verified, blobs) = judge(&session, &mut slots)?;
                Ok(Judged { header_text, header_digest: session.header_digest, verified, blobs })
            }
        }
    }
}

/// An archive that is what its header says, with its files durable.
struct Judged {
    header_text: Vec<u8>,
    header_digest: BlobDigest,
    verified: Verified,
    blobs: Vec<ReadyBlob>,
}

fn too_large(message: &str, limit: u64, bytes: u64) -> ServiceError {
    DomainError::new(ErrorCode::RegistryTooLarge, message).field("limit", limit).field("bytes", bytes).into()
}
