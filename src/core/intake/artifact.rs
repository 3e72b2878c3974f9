//! The intake of an artifact: where its tensors lie, and the digests that span its files.

use std::sync::Arc;

use super::file::{Body, FileIntake};
use crate::core::canonical;
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash, GroupHash};
use crate::core::error::DomainError;
use crate::core::recipe::Extent;
use crate::core::safetensors::header::Container;
use crate::core::sha256::{Lane, Sha256, update_lanes};
use crate::core::shards;
use crate::core::walk::{Walk, WalkState};

/// What one file has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedFile {
    /// Its name in the artifact.
    pub name: String,
    /// Bytes.
    pub len: u64,
    /// H4.
    pub digest: BlobDigest,
}

/// What one parameter group has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedGroup {
    /// `encoder` or `predictor`.
    pub name: &'static str,
    /// H2.
    pub digest: GroupHash,
    /// Bytes of the serialised group.
    pub len: u64,
    /// Tensors in it.
    pub tensors: usize,
}

/// An artifact whose every byte agrees with its header. Made by [`Intake::finish`] only.
#[derive(Clone, Debug)]
pub struct Verified {
    header: Arc<Header>,
    groups: Vec<VerifiedGroup>,
    files: Vec<VerifiedFile>,
    warnings: Vec<&'static str>,
}

impl Verified {
    /// H1, recomputed and equal to the header's.
    #[must_use]
    pub fn content_hash(&self) -> ContentHash {
        self.header.content_hash
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// The parameter groups.
    #[must_use]
    pub fn groups(&self) -> &[VerifiedGroup] {
        &self.groups
    }

    /// The stored files: the weight files in order, then the index if there is one.
    #[must_use]
    pub fn files(&self) -> &[VerifiedFile] {
        &self.files
    }

    /// Things worth knowing that are no reason to refuse.
    #[must_use]
    pub fn warnings(&self) -> &[&'static str] {
        &self.warnings
    }
}

/// The part of an artifact's intake that its files share: where tensors lie, and the digests that span files.
pub struct Intake {
    header: Arc<Header>,
    groups: Vec<canonical::Group>,
    /// The first walk is H1, then one for each group.
    walks: Vec<Walk>,
    places: Vec<Option<Extent>>,
    placed: Vec<bool>,
}

impl Intake {
    /// The intake of an artifact of which only the header is known.
    #[must_use]
    pub fn new(header: Arc<Header>) -> Self {
        let mut groups = canonical::groups(&header);
        let mut walks = vec![Walk::new(canonical::content_recipe(&header))];
        walks.extend(groups.iter_mut().map(|group| Walk::new(std::mem::take(&mut group.recipe))));
        let (tensors, files) = (header.manifest.len(), header.weight_files.len());
        Self { header, groups, walks, places: vec![None; tensors], placed: vec![false; files] }
    }

    /// The header that is being fulfilled.
    #[must_use]
    pub const fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// Compares a weight file's header with the manifest and notes where its tensors lie. Repeating it is harmless.
    ///
    /// # Errors
    /// As [`Header::locate`]; `checkpoint_integrity` when a tensor lies in two files.
    pub fn place(&mut self, file: usize, container: &Container) -> Result<(), DomainError> {
        let indices = self.header.locate(container)?;
        let twice = indices.iter().find(|index| self.places[**index].is_some_and(|place| place.file != file));
        if let Some(index) = twice {
            return Err(DomainError::integrity("a tensor lies in two weight files")
                .field("tensor", &*self.header.manifest[*index].name));
        }
        self.forget(file);
        for (index, tensor) in indices.into_iter().zip(&container.tensors) {
            self.places[index] = Some(Extent { file, start: tensor.start, len: tensor.len });
        }
        self.placed[file] = true;
        if self.placed.iter().all(|placed| *placed) { self.check_complete() } else { Ok(()) }
    }

    /// Drops what is known of a file that will be sent anew, and every digest that has used its bytes.
    pub fn forget(&mut self, file: usize) {
        if !std::mem::replace(&mut self.placed[file], false) {
            return;
        }
        for walk in &mut self.walks {
            if walk.has_used(&self.places, file) {
                walk.reset();
            }
        }
        for place in &mut self.places {
            if place.is_some_and(|place| place.file == file) {
                *place = None;
            }
        }
    }

    fn check_complete(&self) -> Result<(), DomainError> {
        let missing: Vec<&str> = self
            .places
            .iter()
            .zip(&self.header.manifest)
            .filter(|(place, _)| place.is_none())
            .map(|(_, entry)| &*entry.name)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(DomainError::invalid(format!("{} tensors of the manifest are in no weight file", missing.len()))
            .field("missing", missing.iter().take(20).copied().collect::<Vec<_>>()))
    }

    /// Where the digests that span files continue, as far as those places are known.
    #[must_use]
    pub fn fronts(&self) -> Vec<Extent> {
        self.walks.iter().filter_map(|walk| walk.next(&self.places)).collect()
    }

    /// Where the tensors lie; complete once every weight file has been placed.
    #[must_use]
    pub fn places(&self) -> &[Option<Extent>] {
        &self.places
    }

    /// Hashes bytes of `file` at `offset` into every digest that continues there, and into the file's own digest when
    /// they are its next bytes; all of them interleaved on this core.
    pub fn absorb(&mut self, file: usize, offset: u64, chunk: &[u8], own: Option<&mut FileIntake>) {
        let whole = [chunk];
        let mut inputs: Vec<(&mut Sha256, Vec<&[u8]>)> = Vec::with_capacity(self.walks.len());
        for walk in &mut self.walks {
            let mut slices = Vec::new();
            let hasher = walk.advance(&self.places, (file, offset, chunk), &mut slices);
            if !slices.is_empty() {
                inputs.push((hasher, slices));
            }
        }
        let mut lanes: Vec<Lane<'_>> =
            inputs.iter_mut().map(|(hasher, slices)| Lane { hasher, input: slices.as_slice() }).collect();
        if let Some(own) = own {
            lanes.push(Lane { hasher: &mut own.hasher, input: &whole });
        }
        update_lanes(&mut lanes);
    }

    /// The stored bytes that the first unfinished digest needs next; `None` when all digests are finished or wait for
    /// files whose header has not been seen.
    #[must_use]
    pub fn pending(&self) -> Option<Extent> {
        self.walks.iter().filter(|walk| !walk.done()).find_map(|walk| walk.next(&self.places))
    }

    /// The states of the digests that span files.
    #[must_use]
    pub fn save(&self) -> Vec<WalkState> {
        self.walks.iter().map(Walk::save).collect()
    }

    /// Continues the digests from saved states; `stored` tells how many bytes of each file are durable. A state that
    /// does not fit, or that has seen bytes which are not durable, is dropped and its digest starts again.
    pub fn restore(&mut self, states: &[WalkState], stored: &[u64]) {
        if states.len() == self.walks.len() {
            for (walk, state) in self.walks.iter_mut().zip(states) {
                walk.restore(state, &self.places, stored);
            }
        }
    }

    /// Judges the complete artifact. `files` are the weight files in order and the index, if one was sent.
    ///
    /// # Errors
    /// `checkpoint_integrity` when bytes are missing or a hash differs, `artifact_invalid` when tensors are missing.
    pub fn finish(&mut self, files: &[&FileIntake], expected: Option<&str>) -> Result<Verified, DomainError> {
        let mut warnings = Vec::new();
        for (name, file) in self.header.weight_files.iter().zip(files) {
            if let Body::Weights(decoder) = &file.body {
                let container = decoder.finish().map_err(|error| error.field("file", name.as_str()))?;
                if container.without_format {
                    warnings.push("the metadata of a weight file names no format; some readers warn about that");
                }
            }
        }
        warnings.dedup();
        self.check_complete()?;
        self.absorb(usize::MAX, 0, &[], None);
        let content = self.digest(0)?;
        let told = self.header.content_hash.to_string();
        let got = ContentHash::from_bytes(content);
        if got != self.header.content_hash || expected.is_some_and(|expected| expected != told) {
            let wanted = expected.filter(|_| got == self.header.content_hash).unwrap_or(&told);
            return Err(hash_mismatch(wanted, &got.to_string()));
        }
        let groups = self
            .groups
            .iter()
            .enumerate()
            .map(|(index, group)| {
                Ok(VerifiedGroup {
                    name: group.name,
                    digest: GroupHash::from_bytes(self.digest(index + 1)?),
                    len: group.len,
                    tensors: group.tensors,
                })
            })
            .collect::<Result<_, DomainError>>()?;
        for file in files {
            if let Body::Index { text, .. } = &file.body {
                let stored = self.header.manifest.iter().zip(&self.places).filter_map(|(entry, place)| {
                    let file = place.as_ref()?.file;
                    Some((&*entry.name, self.header.weight_files[file].as_str(), entry.len))
                });
                shards::check_index(text, stored)?;
            }
        }
        let files = files
            .iter()
            .map(|file| VerifiedFile {
                name: self.header.weight_files.get(file.index).map_or(shards::INDEX, String::as_str).to_owned(),
                len: file.seen(),
                digest: BlobDigest::from_bytes(file.hasher.clone().finalize()),
            })
            .collect();
        Ok(Verified { header: Arc::clone(&self.header), groups, files, warnings })
    }

    /// Gives back what only an unfinished intake needs. Nothing can be taken in or finished afterwards.
    pub fn release(&mut self) {
        (self.walks, self.groups, self.places) = (Vec::new(), Vec::new(), Vec::new());
    }

    fn digest(&self, index: usize) -> Result<[u8; 32], DomainError> {
        // Only a caller that does not read back what is pending meets an unfinished walk here.
        self.walks[index].digest().ok_or_else(|| DomainError::integrity("the canonical hash is not complete"))
    }
}

/// The refusal of an artifact whose canonical hash is not the one that was claimed or asked for.
#[must_use]
pub fn hash_mismatch(expected: &str, got: &str) -> DomainError {
    DomainError::integrity("the canonical hash of the artifact is not the expected one")
        .field("expected_hash", expected)
        .field("got_hash", got)
        .invariant("INV-CHECKPOINT-HASH")
}
