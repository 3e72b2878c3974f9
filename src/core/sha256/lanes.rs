//! Which streams are interleaved, and how far: whole blocks up to the nearest border of a slice.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::slice;

use super::kernel::{Kernel, Run};
use super::{BLOCK, Sha256};

/// One stream and what it is to absorb next.
pub struct Lane<'a> {
    /// The stream.
    pub hasher: &'a mut Sha256,
    /// The slices to absorb, in order; empty ones are fine.
    pub input: &'a [&'a [u8]],
}

/// Lets every lane absorb its input, two or three at a time on this core, as many as this CPU gains from. The outcome
/// is that of `update` with every slice, lane by lane.
///
/// The order is chosen so that a lane is alone only if it is longer than all others together, and so that lanes of
/// equal length go through their input at the same pace: what they share is read from memory once.
pub fn update_lanes(lanes: &mut [Lane<'_>]) {
    let kernel = Kernel::best();
    update_lanes_with(kernel, kernel.width(), lanes);
}

/// How many blocks a lane may take (256 KiB) before it is another lane's turn.
const TURN: u64 = 4096;

pub(super) fn update_lanes_with(kernel: Kernel, width: usize, lanes: &mut [Lane<'_>]) {
    let mut waiting = BinaryHeap::with_capacity(lanes.len());
    let mut total = 0;
    for lane in lanes {
        let cursor = Cursor::new(lane.hasher, lane.input);
        total += cursor.blocks;
        cursor.wait_or_finish(&mut waiting);
    }
    // The longest lanes go first. They stop where the longest of the others would come to be more than its share of
    // what is left, since it would then be alone at the end.
    while let Some(mut first) = waiting.pop() {
        let mut second = if width > 1 { waiting.pop() } else { None };
        let mut third = if width > 2 { waiting.pop() } else { None };
        let shortest = third.as_ref().or(second.as_ref()).unwrap_or(&first).blocks;
        let next = waiting.peek().map_or(0, |cursor| cursor.blocks);
        let share = total / width as u64;
        let count = share.saturating_sub(next).clamp(1, TURN).min(shortest);
        match (&mut second, &mut third) {
            (Some(second), Some(third)) => {
                interleave(kernel, [&mut first, second, third], count);
            }
            (Some(second), None) => interleave(kernel, [&mut first, second], count),
            (None, _) => interleave(kernel, [&mut first], count),
        }
        for cursor in [Some(first), second, third].into_iter().flatten() {
            total -= count;
            cursor.wait_or_finish(&mut waiting);
        }
    }
}

/// Takes `count` blocks from each cursor; none may have fewer. Each turn goes up to the nearest slice border.
pub(super) fn interleave<const N: usize>(kernel: Kernel, mut cursors: [&mut Cursor<'_>; N], count: u64) {
    let mut left = count;
    while left > 0 {
        let mut turn = usize::try_from(left).unwrap_or(usize::MAX);
        for cursor in &mut cursors {
            turn = turn.min(cursor.ready());
        }
        kernel.compress(cursors.each_mut().map(|cursor| cursor.run(turn)));
        for cursor in &mut cursors {
            cursor.advance(turn);
        }
        left -= turn as u64;
    }
}

/// A stream's place in the slices it absorbs.
pub(super) struct Cursor<'a> {
    hasher: &'a mut Sha256,
    /// What is left of the current slice.
    rest: &'a [u8],
    /// The slices after it.
    slices: slice::Iter<'a, &'a [u8]>,
    /// Whether the partial block is filled up and waits to be compressed.
    full: bool,
    /// Whole blocks still to come.
    pub(super) blocks: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(hasher: &'a mut Sha256, slices: &'a [&'a [u8]]) -> Self {
        let bytes = hasher.used() as u64 + slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
        Self { hasher, rest: &[], slices: slices.iter(), full: false, blocks: bytes / BLOCK as u64 }
    }

    /// How many blocks can be compressed now without another look at the slices: those of the current slice if it
    /// starts on a block border, else the one put together in the partial block. Zero only at the end of the input,
    /// whose last bytes are then in the partial block.
    fn ready(&mut self) -> usize {
        while !self.full {
            let used = self.hasher.used();
            if self.rest.is_empty() {
                let Some(next) = self.slices.next() else {
                    return 0;
                };
                self.rest = next;
            } else if used == 0 && self.rest.len() >= BLOCK {
                return self.rest.len() / BLOCK;
            } else {
                let (taken, rest) = self.rest.split_at(self.rest.len().min(BLOCK - used));
                self.hasher.partial[used..used + taken.len()].copy_from_slice(taken);
                self.hasher.length += taken.len() as u64;
                self.rest = rest;
                self.full = used + taken.len() == BLOCK;
            }
        }
        1
    }

    /// The next `count` blocks, of those that are [`ready`](Self::ready).
    fn run(&mut self, count: usize) -> Run<'_> {
        let blocks = if self.full { slice::from_ref(&self.hasher.partial) } else { self.rest.as_chunks().0 };
        Run { state: &mut self.hasher.state, blocks: &blocks[..count] }
    }

    /// Passes over the blocks that [`run`](Self::run) gave.
    fn advance(&mut self, count: usize) {
        if self.full {
            self.full = false;
        } else {
            self.rest = &self.rest[count * BLOCK..];
            self.hasher.length += (count * BLOCK) as u64;
        }
        self.blocks -= count as u64;
    }

    /// Absorbs the bytes after the last whole block.
    pub(super) fn finish(mut self) {
        self.ready();
    }

    fn wait_or_finish(self, waiting: &mut BinaryHeap<Self>) {
        if self.blocks > 0 {
            waiting.push(self);
        } else {
            self.finish();
        }
    }
}

// By what is left to do, so that the heap gives the longest first.
impl Ord for Cursor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.blocks.cmp(&other.blocks)
    }
}

impl PartialOrd for Cursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Cursor<'_> {}
