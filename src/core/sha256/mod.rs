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
mod kernel;
mod lanes;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::slice;

use kernel::{Kernel, Run};
use lanes::{Cursor, interleave};

pub use lanes::{Lane, update_lanes};

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
        let possible = hasher.length >= BLOCK as u64 || hasher.state == INITIAL;
        (clean && possible && hasher.length <= MAX_BYTES).then_some(hasher)
    }

    /// How many bytes of the partial block count.
    #[expect(clippy::cast_possible_truncation, reason = "the value is below 64")]
    const fn used(&self) -> usize {
        (self.length % BLOCK as u64) as usize
    }
}
