//! SHA-256 over several streams at once on one core.
//!
//! The SHA instructions are bound by latency: a second stream interleaved with the first costs hardly more than the
//! first alone. The registry computes three digests of nearly the same bytes, each with its own framing, so their
//! block borders differ. [`update_lanes`] takes such streams together; [`Sha256`] is one stream, whose state can be
//! saved and restored at any byte so that an upload goes on after a crash without a second pass.
//!
//! The compression function comes from `x86.rs` or `aarch64.rs` where the CPU has the instructions (asked at run
//! time), else from the `sha2` crate, one stream after the other. Nothing here keeps secrets: the state is not wiped.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::slice;
use std::sync::OnceLock;

/// Bytes in one block of the compression function.
const BLOCK: usize = 64;

/// The state before the first block (FIPS 180-4, 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The longest message SHA-256 is defined for: its length in bits must fit 64 bits.
const MAX_BYTES: u64 = u64::MAX / 8;

/// One SHA-256 stream.
#[derive(Clone)]
pub struct Sha256 {
    state: [u32; 8],
    /// The bytes after the last whole block; how many of them count follows from `length`.
    partial: [u8; BLOCK],
    length: u64,
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256 {
    /// Size of what [`save`](Self::save) returns: eight state words, the partial block, the length.
    pub const STATE_BYTES: usize = 32 + BLOCK + 8;

    /// A stream that has absorbed nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: INITIAL, partial: [0; BLOCK], length: 0 }
    }

    /// Absorbs `data`.
    pub fn update(&mut self, data: &[u8]) {
        self.update_with(Kernel::best(), data);
    }

    fn update_with(&mut self, kernel: Kernel, data: &[u8]) {
        let mut cursor = Cursor::new(self, slice::from_ref(&data));
        let blocks = cursor.blocks;
        interleave(kernel, [&mut cursor], blocks);
        cursor.finish();
    }

    /// The digest of everything absorbed.
    #[must_use]
    pub fn finalize(self) -> [u8; 32] {
        self.finalize_with(Kernel::best())
    }

    fn finalize_with(mut self, kernel: Kernel) -> [u8; 32] {
        let used = self.used();
        // One bit, zeros, and the length in bits in the last eight bytes: in a second block if it does not fit here.
        let mut padding = [[0; BLOCK]; 2];
        padding[0][..used].copy_from_slice(&self.partial[..used]);
        padding[0][used] = 0x80;
        let count = if used < BLOCK - 8 { 1 } else { 2 };
        padding[count - 1][BLOCK - 8..].copy_from_slice(&self.length.wrapping_mul(8).to_be_bytes());
        kernel.compress([Run { state: &mut self.state, blocks: &padding[..count] }]);
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        digest
    }

    /// Bytes absorbed so far.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing has been absorbed yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The digest of `data`.
    #[must_use]
    pub fn digest(data: &[u8]) -> [u8; 32] {
        let mut hasher = Self::new();
        hasher.update(data);
        hasher.finalize()
    }

    /// The stream as bytes, for [`restore`](Self::restore). Depends on the absorbed bytes only, not on how they were
    /// cut: numbers are big-endian and the unused end of the partial block is zero.
    #[must_use]
    pub fn save(&self) -> [u8; Self::STATE_BYTES] {
        let mut saved = [0; Self::STATE_BYTES];
        let (state, rest) = saved.split_at_mut(32);
        let (partial, length) = rest.split_at_mut(BLOCK);
        for (bytes, word) in state.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        let used = self.used();
        partial[..used].copy_from_slice(&self.partial[..used]);
        length.copy_from_slice(&self.length.to_be_bytes());
        saved
    }

    /// The stream that [`save`](Self::save) described, or `None` if no stream saves as these bytes: wrong size,
    /// something in the unused end of the partial block, more bytes than SHA-256 can take, or a state that has moved
    /// although no whole block was absorbed. A changed state word of a longer stream cannot be noticed here.
    #[must_use]
    pub fn restore(saved: &[u8]) -> Option<Self> {
        let saved: &[u8; Self::STATE_BYTES] = saved.try_into().ok()?;
        let (state, rest) = saved.split_first_chunk::<32>()?;
        let (partial, length) = rest.split_first_chunk::<BLOCK>()?;
        let mut hasher = Self::new();
        for (word, bytes) in hasher.state.iter_mut().zip(state.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        hasher.partial = *partial;
        hasher.length = u64::from_be_bytes(length.try_into().ok()?);
        let clean = partial[hasher.used()..].iter().all(|&byte| byte == 0);
        let moved = hasher.length >= BLOCK as u64 || hasher.state == INITIAL;
        (clean && moved && hasher.length <= MAX_BYTES).then_some(hasher)
    }

    /// How many bytes of the partial block count.
    #[expect(clippy::cast_possible_truncation, reason = "the value is below 64")]
    const fn used(&self) -> usize {
        (self.length % BLOCK as u64) as usize
    }
}

/// One stream and what it is to absorb next.
pub struct Lane<'a> {
    /// The stream.
    pub hasher: &'a mut Sha256,
    /// The slices to absorb, in order; empty ones are fine.
    pub input: &'a [&'a [u8]],
}

/// Lets every lane absorb its input, up to three at a time on this core. The outcome is that of `update` with every
/// slice, lane by lane.
///
/// Two interleaved lanes already fill the SHA units of current x86 cores; three are taken so that three equal lanes
/// leave none alone at the end. The order is chosen so that a lane works alone only if it is longer than all others
/// together.
pub fn update_lanes(lanes: &mut [Lane<'_>]) {
    update_lanes_with(Kernel::best(), lanes);
}

fn update_lanes_with(kernel: Kernel, lanes: &mut [Lane<'_>]) {
    let mut waiting = BinaryHeap::with_capacity(lanes.len());
    let mut total = 0;
    for lane in lanes {
        let cursor = Cursor::new(lane.hasher, lane.input);
        total += cursor.blocks;
        cursor.wait_or_finish(&mut waiting);
    }
    while let Some(mut first) = waiting.pop() {
        // So many blocks may each lane of a group of three take; after that the longest lane equals all others
        // together, and every one of their blocks is needed beside it.
        let spare = (total - first.blocks).saturating_sub(first.blocks);
        let mut second = waiting.pop();
        // Four lanes go as two and two: three and one would leave the last alone.
        let mut third = if spare > 0 && waiting.len() != 2 { waiting.pop() } else { None };
        match (&mut second, &mut third) {
            (Some(second), Some(third)) => {
                let count = third.blocks.min(spare);
                interleave(kernel, [&mut first, second, third], count);
                total -= 3 * count;
            }
            (Some(second), None) => {
                let count = second.blocks;
                interleave(kernel, [&mut first, second], count);
                total -= 2 * count;
            }
            (None, _) => {
                let count = first.blocks;
                interleave(kernel, [&mut first], count);
                total -= count;
            }
        }
        for cursor in [Some(first), second, third].into_iter().flatten() {
            cursor.wait_or_finish(&mut waiting);
        }
    }
}

/// Takes `count` blocks from each cursor; none may have fewer. Each turn goes up to the nearest slice border.
fn interleave<const N: usize>(kernel: Kernel, mut cursors: [&mut Cursor<'_>; N], count: u64) {
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
struct Cursor<'a> {
    hasher: &'a mut Sha256,
    /// What is left of the current slice.
    rest: &'a [u8],
    /// The slices after it.
    slices: slice::Iter<'a, &'a [u8]>,
    /// Whether the partial block is filled up and waits to be compressed.
    full: bool,
    /// Whole blocks still to come.
    blocks: u64,
}

impl<'a> Cursor<'a> {
    fn new(hasher: &'a mut Sha256, slices: &'a [&'a [u8]]) -> Self {
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
    fn finish(mut self) {
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

/// Blocks to compress into one state.
struct Run<'a> {
    state: &'a mut [u32; 8],
    blocks: &'a [[u8; BLOCK]],
}

/// An implementation of the compression function. The variants other than `Portable` prove by their existence that
/// this CPU has the instructions.
#[derive(Clone, Copy)]
enum Kernel {
    #[cfg(target_arch = "x86_64")]
    X86(x86::ShaNi),
    #[cfg(target_arch = "aarch64")]
    Aarch64(aarch64::Sha2),
    Portable,
}

impl Kernel {
    /// The fastest one here.
    fn best() -> Self {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Self::accelerated().unwrap_or(Self::Portable))
    }

    #[cfg(target_arch = "x86_64")]
    fn accelerated() -> Option<Self> {
        x86::ShaNi::detect().map(Self::X86)
    }

    #[cfg(target_arch = "aarch64")]
    fn accelerated() -> Option<Self> {
        aarch64::Sha2::detect().map(Self::Aarch64)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn accelerated() -> Option<Self> {
        None
    }

    /// Compresses all runs; they must be equally long.
    fn compress<const N: usize>(self, runs: [Run<'_>; N]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::X86(kernel) => kernel.compress(runs),
            #[cfg(target_arch = "aarch64")]
            Self::Aarch64(kernel) => kernel.compress(runs),
            Self::Portable => portable::compress(runs),
        }
    }
}

/// The round constants (FIPS 180-4, 4.2.2), aligned for vector loads.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static ROUND_CONSTANTS: Aligned<[[u32; 4]; 16]> = Aligned([
    [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
    [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
    [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
    [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
    [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
    [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
    [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
    [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
    [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
    [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
    [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
    [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
    [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
]);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[repr(align(64))]
struct Aligned<T>(T);
