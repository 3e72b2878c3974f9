//! The compression function with the SHA-2 instructions of AArch64, for up to three lanes at once.
//!
//! As on x86, each step of a stream waits for the one before, so the lanes stand side by side in every step.
#![expect(clippy::needless_range_loop, reason = "lanes and words are numbered")]
#![expect(unsafe_code, reason = "vector loads and stores, and calls that need CPU features checked at run time")]

use core::arch::aarch64::{
    uint32x4_t, vaddq_u32, vdupq_n_u32, vld1q_u8, vld1q_u32, vreinterpretq_u32_u8, vrev32q_u8, vsha256h2q_u32,
    vsha256hq_u32, vsha256su0q_u32, vsha256su1q_u32, vst1q_u32,
};
use std::arch::is_aarch64_feature_detected;

use super::BLOCK;
use super::kernel::{ROUND_CONSTANTS, Run};

/// Proof that the CPU has the instructions: only [`detect`](Self::detect) makes one.
#[derive(Clone, Copy)]
pub(super) struct Sha2(());

impl Sha2 {
    pub(super) fn detect() -> Option<Self> {
        (is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("sha2")).then_some(Self(()))
    }

    /// Compresses all runs; they must be equally long.
    #[expect(clippy::unused_self, reason = "whoever has a `self` may call this")]
    pub(super) fn compress<const N: usize>(self, runs: [Run<'_>; N]) {
        // SAFETY: `self` exists only if `detect` found both features.
        unsafe { compress(runs) }
    }
}

#[target_feature(enable = "neon,sha2")]
fn compress<const N: usize>(runs: [Run<'_>; N]) {
    let count = runs.iter().map(|run| run.blocks.len()).min().unwrap_or(0);
    debug_assert!(runs.iter().all(|run| run.blocks.len() == count));

    let (mut abcd, mut efgh) = ([vdupq_n_u32(0); N], [vdupq_n_u32(0); N]);
    for lane in 0..N {
        (abcd[lane], efgh[lane]) = load_state(runs[lane].state);
    }

    for index in 0..count {
        let (abcd_before, efgh_before) = (abcd, efgh);
        let mut words = [[vdupq_n_u32(0); N]; 4];
        for (i, words) in words.iter_mut().enumerate() {
            let constants = round_constants(i);
            for lane in 0..N {
                words[lane] = load_words(&runs[lane].blocks[index], i);
                let sums = vaddq_u32(words[lane], constants);
                four_rounds(&mut abcd[lane], &mut efgh[lane], sums);
            }
        }
        // The next four words follow from the last sixteen, and take the place of the oldest.
        for group in 1..4 {
            for i in 0..4 {
                let constants = round_constants(4 * group + i);
                for lane in 0..N {
                    let (b, c, d) = (words[(i + 1) % 4][lane], words[(i + 2) % 4][lane], words[(i + 3) % 4][lane]);
                    words[i][lane] = next_words(words[i][lane], b, c, d);
                    let sums = vaddq_u32(words[i][lane], constants);
                    four_rounds(&mut abcd[lane], &mut efgh[lane], sums);
                }
            }
        }
        for lane in 0..N {
            abcd[lane] = vaddq_u32(abcd[lane], abcd_before[lane]);
            efgh[lane] = vaddq_u32(efgh[lane], efgh_before[lane]);
        }
    }

    for (run, (abcd, efgh)) in runs.into_iter().zip(abcd.into_iter().zip(efgh)) {
        store_state(run.state, abcd, efgh);
    }
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn four_rounds(abcd: &mut uint32x4_t, efgh: &mut uint32x4_t, sums: uint32x4_t) {
    let before = *abcd;
    *abcd = vsha256hq_u32(before, *efgh, sums);
    *efgh = vsha256h2q_u32(*efgh, before, sums);
}

/// The four message words after the given sixteen.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn next_words(a: uint32x4_t, b: uint32x4_t, c: uint32x4_t, d: uint32x4_t) -> uint32x4_t {
    vsha256su1q_u32(vsha256su0q_u32(a, b), c, d)
}

#[inline]
#[target_feature(enable = "neon")]
fn round_constants(i: usize) -> uint32x4_t {
    let constants: &[u32; 4] = &ROUND_CONSTANTS.0[i];
    // SAFETY: sixteen readable bytes.
    unsafe { vld1q_u32(constants.as_ptr()) }
}

/// The `i`th four message words of a block.
#[inline]
#[target_feature(enable = "neon")]
fn load_words(block: &[u8; BLOCK], i: usize) -> uint32x4_t {
    let bytes: &[u8; 16] = &block.as_chunks().0[i];
    // SAFETY: sixteen readable bytes; this load needs no alignment.
    let bytes = unsafe { vld1q_u8(bytes.as_ptr()) };
    vreinterpretq_u32_u8(vrev32q_u8(bytes))
}

#[inline]
#[target_feature(enable = "neon")]
fn load_state(state: &[u32; 8]) -> (uint32x4_t, uint32x4_t) {
    let halves: &[[u32; 4]] = state.as_chunks().0;
    // SAFETY: sixteen readable bytes each.
    unsafe { (vld1q_u32(halves[0].as_ptr()), vld1q_u32(halves[1].as_ptr())) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store_state(state: &mut [u32; 8], abcd: uint32x4_t, efgh: uint32x4_t) {
    let halves: &mut [[u32; 4]] = state.as_chunks_mut().0;
    // SAFETY: sixteen writable bytes each.
    unsafe {
        vst1q_u32(halves[0].as_mut_ptr(), abcd);
        vst1q_u32(halves[1].as_mut_ptr(), efgh);
    }
}
