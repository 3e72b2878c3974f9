//! The public probe, a safetensors file with hashes of its own (Lensemble RFC-0004 section 3).
//!
//! It holds `points`, `landmark_idx` (which of them are landmarks) and `landmark_targets` (where the reference encoder
//! puts those). The full hash binds all three and is what a run pins; the hash of the source leaves out the targets and
//! pins nothing:
//!
//! ```text
//! full   = H("lensemble.public-probe" 00 "v2" 00, the safetensors file of all three without metadata)
//! source = H("lensemble.probe-source" 00 "v1" 00, the same of points and landmark_idx)
//! ```
//!
//! [`ProbeReader`] takes the file in any pieces and keeps nothing of the data; `header.rs` reads what stands before it.

mod header;
#[cfg(test)]
mod tests;

use header::Header;

use crate::core::digest::{ProbeHash, Sha256Hash};
use crate::core::error::{DomainError, ErrorCode};
use crate::core::sha256::{Lane, Sha256, update_lanes};

const CODE: ErrorCode = ErrorCode::ProbeInvalid;

/// Bytes of a landmark's index.
const INDEX: usize = 8;

/// A probe whose bytes are what its metadata says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The full hash, version 2: what a run pins.
    pub content_hash: ProbeHash,
    /// The hash of points and landmarks alone; it pins nothing.
    pub source_hash: Sha256Hash,
    /// Version of the probe, at least 1.
    pub probe_version: u64,
    /// Shape of `points`; the first dimension counts them.
    pub points: Vec<u64>,
    /// Shape of `landmark_targets`: landmarks, tokens, dimensions of the latent space.
    pub targets: [u64; 3],
    /// How many landmarks there are.
    pub landmarks: u64,
}

impl Probe {
    /// Whether a run that is pinned to `pin` can be anchored with this probe: it must be the pinned one, and have at
    /// least as many landmarks as the latent space has dimensions, else they leave the frame free to turn. A file with
    /// fewer is whole and is read; it only pins nothing.
    ///
    /// # Errors
    /// `probe_invalid`.
    pub fn check_pin(&self, pin: &ProbeHash) -> Result<(), DomainError> {
        let d = self.targets[2];
        let message = if self.content_hash != *pin {
            "the probe is not the one that the run is pinned to"
        } else if self.landmarks < d {
            "the probe has fewer landmarks than its latent space has dimensions"
        } else {
            return Ok(());
        };
        Err(mismatch(message, pin, &self.content_hash, self.landmarks, d))
    }
}

fn mismatch(message: &str, expected: &ProbeHash, got: &ProbeHash, landmarks: u64, d: u64) -> DomainError {
    DomainError::new(CODE, message)
        .field("expected_hash", expected.to_string())
        .field("got_hash", got.to_string())
        .field("num_landmarks", landmarks)
        .field("d", d)
}

/// Reads a probe file as it arrives. The outcome does not depend on how the bytes are cut.
pub struct ProbeReader {
    state: State,
    header_bytes: u64,
}

enum State {
    /// Collecting length and header.
    Head(Vec<u8>),
    /// Taking data.
    Body(Box<Body>),
    /// Refused; what follows cannot make it good.
    Refused(DomainError),
}

struct Body {
    header: Header,
    /// Bytes of data taken so far.
    seen: u64,
    full: Sha256,
    source: Sha256,
    /// The beginning of an index that was cut.
    index: [u8; INDEX],
}

impl Default for ProbeReader {
    fn default() -> Self {
        Self::new(Self::HEADER_BYTES)
    }
}

impl ProbeReader {
    /// The usual limit of a header, far above what three tensors need.
    pub const HEADER_BYTES: u64 = 1 << 20;

    /// A reader at the first byte of a file whose header has at most so many bytes.
    #[must_use]
    pub const fn new(header_bytes: u64) -> Self {
        Self { state: State::Head(Vec::new()), header_bytes }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// `probe_invalid` as soon as the bytes can no longer become a probe, and from then on.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), DomainError> {
        let outcome = match &mut self.state {
            State::Head(bytes) => match read_head(bytes, chunk, self.header_bytes) {
                Ok(None) => Ok(()),
                Ok(Some((header, rest))) => {
                    let mut body = Box::new(Body::new(header));
                    let outcome = body.take(rest);
                    self.state = State::Body(body);
                    outcome
                }
                Err(error) => Err(error),
            },
            State::Body(body) => body.take(chunk),
            State::Refused(error) => return Err(error.clone()),
        };
        outcome.inspect_err(|error| self.state = State::Refused(error.clone()))
    }

    /// The probe that the bytes make.
    ///
    /// # Errors
    /// `probe_invalid` when bytes are missing or are not those that were hashed.
    pub fn finish(self) -> Result<Probe, DomainError> {
        match self.state {
            State::Head(_) => Err(DomainError::new(CODE, "the file ends inside the header of the probe")),
            State::Body(body) => body.finish(),
            State::Refused(error) => Err(error),
        }
    }
}

/// Grows `bytes` by what belongs to the head; the header and the rest of the chunk when that is complete.
fn read_head<'a>(
    bytes: &mut Vec<u8>,
    mut chunk: &'a [u8],
    limit: u64,
) -> Result<Option<(Header, &'a [u8])>, DomainError> {
    let mut take = |bytes: &mut Vec<u8>, upto: usize| {
        let (taken, rest) = chunk.split_at(upto.saturating_sub(bytes.len()).min(chunk.len()));
        bytes.extend_from_slice(taken);
        chunk = rest;
        bytes.len() >= upto
    };
    if !take(bytes, 8) {
        return Ok(None);
    }
    let length = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let total = usize::try_from(length).ok().filter(|_| length <= limit).and_then(|length| length.checked_add(8));
    let Some(total) = total else {
        return Err(DomainError::new(
            CODE,
            "the header of the probe is longer than it may be, or this is no safetensors",
        )
        .field("limit", limit));
    };
    if !take(bytes, total) {
        return Ok(None);
    }
    Ok(Some((Header::parse(&bytes[8..])?, chunk)))
}

impl Body {
    fn new(header: Header) -> Self {
        let (mut full, mut source) = (Sha256::new(), Sha256::new());
        full.update(&header.full_preamble());
        source.update(&header.source_preamble());
        Self { header, seen: 0, full, source, index: [0; INDEX] }
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), DomainError> {
        let left = self.header.data_len() - self.seen;
        let fits = usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()));
        let (data, trailing) = chunk.split_at(fits);
        self.check_indices(data)?;
        // The indices come first of all; of the rest, only the points belong to the source.
        let indices = within(data, self.seen, 0, self.header.landmarks().len);
        let start = self.header.points_start();
        let points = within(data, self.seen, start, start + self.header.points().len);
        update_lanes(&mut [
            Lane { hasher: &mut self.full, input: &[data] },
            Lane { hasher: &mut self.source, input: &[indices, points] },
        ]);
        self.seen += data.len() as u64;
        if trailing.is_empty() {
            Ok(())
        } else {
            Err(DomainError::new(CODE, "there are bytes after the last tensor of the probe"))
        }
    }

    /// Each index must be that of a point. They are the first of the data, so none is kept but one that was cut.
    fn check_indices(&mut self, data: &[u8]) -> Result<(), DomainError> {
        let count = self.header.points().shape.first().copied().unwrap_or(0);
        let mut at = usize::try_from(self.seen % INDEX as u64).unwrap_or(0);
        for byte in within(data, self.seen, 0, self.header.landmarks().len) {
            self.index[at] = *byte;
            at += 1;
            if at == INDEX {
                at = 0;
                let index = i64::from_le_bytes(self.index);
                if u64::try_from(index).ok().is_none_or(|index| index >= count) {
                    return Err(DomainError::new(CODE, "landmark_idx has an index that is not that of a point")
                        .field("num_points", count));
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Probe, DomainError> {
        let Self { header, seen, full, source, .. } = self;
        if seen != header.data_len() {
            return Err(DomainError::new(CODE, "the file ends inside the data of the probe")
                .field("expected_bytes", header.data_len())
                .field("got_bytes", seen));
        }
        let content_hash = ProbeHash::from_bytes(full.finalize());
        let [landmarks, tokens, d] = header.target_dims();
        if content_hash != header.content_hash {
            let message = "the bytes of the probe are not those that its content_hash is of";
            return Err(mismatch(message, &header.content_hash, &content_hash, landmarks, d));
        }
        Ok(Probe {
            content_hash,
            source_hash: Sha256Hash::from_bytes(source.finalize()),
            probe_version: header.probe_version,
            points: header.points().shape.clone(),
            targets: [landmarks, tokens, d],
            landmarks,
        })
    }
}

/// What of `data`, which begins at `offset`, lies between `start` and `end`.
fn within(data: &[u8], offset: u64, start: u64, end: u64) -> &[u8] {
    let clamp = |position: u64| {
        usize::try_from(position.saturating_sub(offset)).map_or(data.len(), |position| position.min(data.len()))
    };
    &data[clamp(start)..clamp(end)]
}
