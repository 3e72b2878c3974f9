//! A digest in progress: a walk along a recipe, fed from whichever bytes are at hand.

use super::recipe::{Extent, Piece, Recipe};
use super::sha256::Sha256;

/// How far a digest has come along its recipe.
pub(super) struct Walk {
    recipe: Recipe,
    piece: usize,
    within: u64,
    hasher: Sha256,
}

/// What a digest in progress is resumed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkState {
    /// Index of the recipe's piece that comes next.
    pub piece: u64,
    /// Bytes of that piece already taken.
    pub within: u64,
    /// The saved hash state.
    pub hasher: Vec<u8>,
}

/// Where the tensors of an artifact lie, by position in the manifest, as far as that is known.
pub(super) type Places = [Option<Extent>];

impl Walk {
    pub(super) fn new(recipe: Recipe) -> Self {
        Self { recipe, piece: 0, within: 0, hasher: Sha256::new() }
    }

    /// True at the end of the recipe.
    pub(super) fn done(&self) -> bool {
        self.piece == self.recipe.pieces().len()
    }

    /// The digest, at the end of the recipe.
    pub(super) fn digest(&self) -> Option<[u8; 32]> {
        self.done().then(|| self.hasher.clone().finalize())
    }

    /// Starts again.
    pub(super) fn reset(&mut self) {
        (self.piece, self.within, self.hasher) = (0, 0, Sha256::new());
    }

    /// The stored bytes that come next; `None` at the end or when their place is not known yet.
    pub(super) fn next(&self, places: &Places) -> Option<Extent> {
        let mut within = self.within;
        for piece in &self.recipe.pieces()[self.piece..] {
            let place = match piece {
                Piece::Literal(_) => continue,
                Piece::Tensor(index) => places[*index]?,
                Piece::File(file, len) => Extent { file: *file, start: 0, len: *len },
            };
            if within < place.len {
                return Some(rest(place, within));
            }
            within = 0;
        }
        None
    }

    /// Goes over literals and over `chunk`, which lies at `offset` of `file`, as far as they continue the walk. The
    /// slices to hash are put into `out`, for the hasher that is returned.
    pub(super) fn advance<'a>(
        &'a mut self,
        places: &Places,
        (file, offset, chunk): (usize, u64, &'a [u8]),
        out: &mut Vec<&'a [u8]>,
    ) -> &'a mut Sha256 {
        let Self { recipe, piece, within, hasher } = self;
        while let Some(step) = recipe.pieces().get(*piece) {
            let place = match step {
                Piece::Literal(range) => {
                    out.push(recipe.text(range));
                    *piece += 1;
                    continue;
                }
                Piece::Tensor(index) => places[*index],
                Piece::File(file, len) => Some(Extent { file: *file, start: 0, len: *len }),
            };
            let Some(place) = place else { break };
            if *within < place.len {
                let Extent { file: wanted, start, len } = rest(place, *within);
                let end = offset + chunk.len() as u64;
                if wanted != file || start < offset || start >= end {
                    break;
                }
                let take = len.min(end - start);
                let at = to_index(start - offset);
                out.push(&chunk[at..at + to_index(take)]);
                *within += take;
                if *within < place.len {
                    break;
                }
            }
            *piece += 1;
            *within = 0;
        }
        hasher
    }

    /// True when a byte of `file` has gone into this digest.
    pub(super) fn has_used(&self, places: &Places, file: usize) -> bool {
        let begun = usize::from(self.within > 0);
        self.recipe.pieces()[..self.piece + begun].iter().any(|piece| match piece {
            Piece::Literal(_) => false,
            Piece::Tensor(index) => places[*index].is_some_and(|place| place.file == file && place.len > 0),
            Piece::File(index, _) => *index == file,
        })
    }

    /// The state to resume from.
    pub(super) fn save(&self) -> WalkState {
        WalkState { piece: self.piece as u64, within: self.within, hasher: self.hasher.save().to_vec() }
    }

    /// Continues from a saved state if it can be right: every byte it has seen must lie at a known place, inside the
    /// first `stored` bytes of its file, and their count must be the hasher's. Otherwise nothing changes.
    pub(super) fn restore(&mut self, state: &WalkState, places: &Places, stored: &[u64]) {
        let restored = self.bytes_before(state, places, stored).zip(Sha256::restore(&state.hasher));
        if let Some((seen, hasher)) = restored
            && seen == hasher.len()
        {
            (self.piece, self.within, self.hasher) = (to_index(state.piece), state.within, hasher);
        }
    }

    /// Bytes on the way to `state`, or `None` if some of them are not durable.
    fn bytes_before(&self, state: &WalkState, places: &Places, stored: &[u64]) -> Option<u64> {
        let durable = |place: Extent, taken: u64| {
            let known = taken <= place.len && (taken == 0 || place.start + taken <= *stored.get(place.file)?);
            known.then_some(taken)
        };
        let length = |piece: &Piece, part: Option<u64>| match piece {
            Piece::Literal(range) => part.is_none().then_some(range.len() as u64),
            Piece::Tensor(index) => places[*index].and_then(|place| durable(place, part.unwrap_or(place.len))),
            Piece::File(file, len) => durable(Extent { file: *file, start: 0, len: *len }, part.unwrap_or(*len)),
        };
        let pieces = self.recipe.pieces();
        let at = usize::try_from(state.piece).ok().filter(|at| *at <= pieces.len())?;
        let whole = pieces[..at].iter().try_fold(0u64, |total, piece| Some(total + length(piece, None)?))?;
        if state.within == 0 {
            return Some(whole);
        }
        Some(whole + length(pieces.get(at)?, Some(state.within))?)
    }
}

fn rest(place: Extent, within: u64) -> Extent {
    Extent { file: place.file, start: place.start + within, len: place.len - within }
}

/// For distances inside one chunk, which is in memory.
fn to_index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
