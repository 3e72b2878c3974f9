//! A push machine over the bytes of one safetensors file: Length, Header, Body.
//!
//! The result does not depend on how the bytes are cut, and nothing is allocated on the word of a length field.

use std::sync::Arc;

use super::header::Container;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::limits::Limits;
use crate::core::sniff;

/// Bytes looked at before a file is believed to be safetensors: the length and the first brace.
const PREFIX: usize = 9;

enum State {
    /// Collecting the length, the JSON text and nothing else.
    Head { bytes: Vec<u8> },
    /// Counting element bytes.
    Body { container: Arc<Container> },
}

/// Reads one file as it arrives.
pub struct Decoder {
    state: State,
    seen: u64,
    declared: Option<u64>,
    limits: Limits,
}

impl Decoder {
    /// A decoder at the first byte of a file; `declared` is its length where the transport says so.
    #[must_use]
    pub const fn new(declared: Option<u64>, limits: Limits) -> Self {
        Self { state: State::Head { bytes: Vec::new() }, seen: 0, declared, limits }
    }

    /// Bytes taken so far.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// The header, once it is complete.
    #[must_use]
    pub const fn container(&self) -> Option<&Arc<Container>> {
        match &self.state {
            State::Head { .. } => None,
            State::Body { container } => Some(container),
        }
    }

    /// Takes the next bytes; true when the header became complete with them.
    ///
    /// # Errors
    /// `checkpoint_integrity` or `artifact_invalid` as soon as the bytes can no longer become a valid file. The
    /// decoder is of no use afterwards.
    pub fn push(&mut self, chunk: &[u8]) -> Result<bool, DomainError> {
        self.seen += chunk.len() as u64;
        let mut completed = false;
        if let State::Head { bytes } = &mut self.state {
            let Some(container) = read_head(bytes, chunk, self.declared, &self.limits)? else { return Ok(false) };
            if let Some(declared) = self.declared.filter(|declared| *declared != container.file_len) {
                return Err(wrong_length(declared, container.file_len));
            }
            self.state = State::Body { container: Arc::new(container) };
            completed = true;
        }
        if let State::Body { container } = &self.state
            && self.seen > container.file_len
        {
            return Err(trailing(self.seen - container.file_len));
        }
        Ok(completed)
    }

    /// Drops the list of tensors once it has served its purpose; a large one takes megabytes.
    pub fn release_tensors(&mut self) {
        if let State::Body { container } = &mut self.state {
            let Container { file_len, without_format, .. } = **container;
            *container = Arc::new(Container {
                tensors: Vec::new(),
                file_len,
                metadata_hash: None,
                metadata_version: None,
                without_format,
            });
        }
    }

    /// Counts element bytes that were checked before, after a restart. Only what lies behind the header can be skipped;
    /// false when that is not so.
    pub fn skip(&mut self, len: u64) -> bool {
        let State::Body { container } = &self.state else { return len == 0 };
        let fits = self.seen.checked_add(len).is_some_and(|seen| seen <= container.file_len);
        if fits {
            self.seen += len;
        }
        fits
    }

    /// The header of the complete file.
    ///
    /// # Errors
    /// `checkpoint_integrity` when bytes are missing.
    pub fn finish(&self) -> Result<&Arc<Container>, DomainError> {
        match &self.state {
            State::Body { container } if self.seen == container.file_len => Ok(container),
            State::Body { container } => Err(DomainError::integrity(format!(
                "received {} of {} bytes of the file",
                self.seen, container.file_len
            ))
            .field("received", self.seen)
            .field("expected", container.file_len)),
            State::Head { bytes } => Err(match sniff::disguise(bytes) {
                Some(name) => not_safetensors(name),
                None if bytes.is_empty() => DomainError::integrity("the weight file is empty"),
                None => DomainError::integrity(format!("the file ends after {} bytes, inside its header", self.seen))
                    .field("received", self.seen),
            }),
        }
    }
}

/// Grows `bytes` by what belongs to the head; the container when that is complete.
fn read_head(
    bytes: &mut Vec<u8>,
    mut chunk: &[u8],
    declared: Option<u64>,
    limits: &Limits,
) -> Result<Option<Container>, DomainError> {
    let take = |bytes: &mut Vec<u8>, chunk: &mut &[u8], upto: usize| {
        let n = upto.saturating_sub(bytes.len()).min(chunk.len());
        bytes.extend_from_slice(&chunk[..n]);
        *chunk = &chunk[n..];
        bytes.len() >= upto
    };
    if bytes.len() < PREFIX {
        take(bytes, &mut chunk, PREFIX);
        if let Some(length) = bytes.first_chunk::<8>() {
            // Only these 8 bytes are shown to it, so that the verdict does not depend on how the stream was cut.
            check_length(*length, declared, limits)?;
        }
        if bytes.len() < PREFIX {
            return Ok(None);
        }
        if bytes[8] != b'{' {
            return Err(sniff::disguise(bytes).map_or_else(
                || DomainError::integrity("byte 8 is not the '{' that begins a safetensors header").field("offset", 8),
                not_safetensors,
            ));
        }
    }
    let length = bytes.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    // Fits: check_length has compared it with a limit far below usize::MAX.
    let total = 8 + usize::try_from(length).unwrap_or(usize::MAX - 8);
    if !take(bytes, &mut chunk, total) {
        return Ok(None);
    }
    let container = Container::parse(&bytes[8..total], limits)?;
    if container.file_len > limits.file_bytes {
        return Err(DomainError::new(ErrorCode::RegistryTooLarge, "the weight file is larger than one file may be")
            .field("limit", limits.file_bytes)
            .field("bytes", container.file_len));
    }
    Ok(Some(container))
}

/// Judges the length field from its 8 bytes, which may also give a disguise away.
fn check_length(field: [u8; 8], declared: Option<u64>, limits: &Limits) -> Result<(), DomainError> {
    let length = u64::from_le_bytes(field);
    let wrong = if length < 2 {
        Some("is too short for a JSON object")
    } else if length > limits.container_header_bytes {
        Some("is above the limit")
    } else if declared.is_some_and(|declared| length > declared.saturating_sub(8)) {
        Some("reaches beyond the end of the file")
    } else {
        None
    };
    let Some(wrong) = wrong else { return Ok(()) };
    Err(sniff::disguise(&field).map_or_else(
        || {
            DomainError::integrity(format!("the safetensors header length {wrong}"))
                .field("header_bytes", length)
                .field("limit", limits.container_header_bytes)
                .field("offset", 0)
        },
        not_safetensors,
    ))
}

fn not_safetensors(disguise: &'static str) -> DomainError {
    DomainError::integrity(format!("not safetensors: this is {disguise}"))
        .field("reason", "not_safetensors")
        .remedy("Save the weights with safetensors; no other format is read here.")
}

fn trailing(count: u64) -> DomainError {
    DomainError::integrity(format!("{count} bytes after the last tensor")).field("trailing_bytes", count)
}

fn wrong_length(declared: u64, expected: u64) -> DomainError {
    if declared > expected {
        trailing(declared - expected)
    } else {
        DomainError::integrity(format!("the file has {declared} bytes, its header describes {expected}"))
            .field("received", declared)
            .field("expected", expected)
    }
}
