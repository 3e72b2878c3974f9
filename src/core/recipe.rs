//! Recipes: byte sequences described as literal pieces and ranges of stored files, instead of being copied.
//!
//! The same description serves both directions. A digest in progress walks a recipe while the files arrive
//! ([`super::intake`]); a view that is served (a group, a tensor, the archive) is a recipe whose places are known.

use std::ops::Range;

/// A range of a stored file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Position of the file in the artifact's list of files.
    pub file: usize,
    /// Offset of the first byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

impl Extent {
    /// True when the first byte of this range lies in `start..start + len` of `file`.
    #[must_use]
    pub const fn begins_in(&self, file: usize, start: u64, len: u64) -> bool {
        self.file == file && start <= self.start && self.start < start + len
    }
}

/// One step of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the recipe's own text.
    Literal(Range<usize>),
    /// The element bytes of the tensor at this position of the manifest.
    Tensor(usize),
    /// A whole file and its length.
    File(usize, u64),
}

/// A sequence of bytes, described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Recipe {
    /// Adds literal bytes; neighbouring literals become one.
    pub fn literal(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        match self.pieces.last_mut() {
            Some(Piece::Literal(range)) => range.end = self.text.len(),
            _ => self.pieces.push(Piece::Literal(start..self.text.len())),
        }
    }

    /// Adds the element bytes of a tensor.
    pub fn tensor(&mut self, index: usize) {
        self.pieces.push(Piece::Tensor(index));
    }

    /// Adds a whole file of `len` bytes.
    pub fn file(&mut self, index: usize, len: u64) {
        self.pieces.push(Piece::File(index, len));
    }

    /// The steps.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The bytes of a literal step.
    #[must_use]
    pub fn text(&self, range: &Range<usize>) -> &[u8] {
        &self.text[range.clone()]
    }

    /// What to send for this recipe: literals and merged ranges. `place` tells where each tensor lies.
    #[must_use]
    pub fn sources(&self, place: impl Fn(usize) -> Extent) -> Vec<Source> {
        let mut sources: Vec<Source> = Vec::new();
        for piece in &self.pieces {
            let extent = match piece {
                Piece::Literal(range) => {
                    sources.push(Source::Literal(self.text(range).to_vec()));
                    continue;
                }
                Piece::Tensor(index) => place(*index),
                Piece::File(file, len) => Extent { file: *file, start: 0, len: *len },
            };
            match sources.last_mut() {
                _ if extent.len == 0 => {}
                Some(Source::Stored(last)) if last.file == extent.file && last.start + last.len == extent.start => {
                    last.len += extent.len;
                }
                _ => sources.push(Source::Stored(extent)),
            }
        }
        sources
    }
}

/// A run of bytes to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// These bytes.
    Literal(Vec<u8>),
    /// A range of a stored file.
    Stored(Extent),
}

impl Source {
    /// Bytes in this run.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Literal(bytes) => bytes.len() as u64,
            Self::Stored(extent) => extent.len,
        }
    }

    /// True when there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of this run in `start..start + len`, both counted from the run's first byte.
    fn part(&self, start: u64, len: u64) -> Self {
        match self {
            // The bounds are inside the literal, whose length is a usize.
            Self::Literal(bytes) => {
                let at = usize::try_from(start).unwrap_or(usize::MAX);
                let end = usize::try_from(start + len).unwrap_or(usize::MAX);
                Self::Literal(bytes[at..end].to_vec())
            }
            Self::Stored(extent) => Self::Stored(Extent { file: extent.file, start: extent.start + start, len }),
        }
    }
}

/// Cuts `start..start + len` out of a sequence of runs.
#[must_use]
pub fn slice(sources: &[Source], start: u64, len: u64) -> Vec<Source> {
    let end = start + len;
    let mut at = 0;
    let mut cut = Vec::new();
    for source in sources {
        let next = at + source.len();
        let (from, to) = (start.max(at), end.min(next));
        if from < to {
            cut.push(source.part(from - at, to - from));
        }
        at = next;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_tensors_become_one_range_and_slices_stay_exact() {
        let mut recipe = Recipe::default();
        recipe.literal(b"he");
        recipe.literal(b"ad");
        for index in 0..3 {
            recipe.tensor(index);
        }
        let places = [(0, 10, 5), (0, 15, 0), (0, 15, 7)];
        let sources = recipe.sources(|index| {
            let (file, start, len) = places[index];
            Extent { file, start, len }
        });
        let stored = |start, len| Source::Stored(Extent { file: 0, start, len });
        assert_eq!(sources, [Source::Literal(b"head".to_vec()), stored(10, 12)]);
        assert_eq!(slice(&sources, 3, 2), [Source::Literal(b"d".to_vec()), stored(10, 1)]);
        assert_eq!(slice(&sources, 0, 16), sources);
        assert_eq!(slice(&sources, 16, 0), []);
    }
}
