//! The compression function with the SHA instructions of x86-64 (SHA-NI).
//!
//! One stream is a chain of 32 `sha256rnds2` per block, each waiting for the one before; the CPU can start the next
//! in half the time one takes. So the lanes stand side by side in every step, and two of them fill the unit.
//!
//! Two is also what the sixteen vector registers hold. With three the compiler has to spill; where it spills a
//! state, which everything waits for, three lanes were slower than two (1.4 to 2.1 times one lane, by the luck of the
//! build, against a steady 2.0).
#![expect(unsafe_code, reason = "vector loads and stores, and calls that need CPU features checked at run time")]

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_load_si128, _mm_loadu_si128, _mm_set_epi64x,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
    _mm_storeu_si128,
};
use core::hint::black_box;

use super::BLOCK;
use super::kernel::{ROUND_CONSTANTS, Run};

/// Proof that the CPU has the instructions: only [`detect`](Self::detect) makes one.
#[derive(Clone, Copy)]
pub(super) struct ShaNi(());

impl ShaNi {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3"))
            .then_some(Self(()))
    }

    /// Compresses all runs; they must be equally long.
    #[expect(clippy::unused_self, reason = "whoever has a `self` may call this")]
    pub(super) fn compress<const N: usize>(self, runs: [Run<'_>; N]) {
        // SAFETY: `self` exists only if `detect` found all three features.
        unsafe { compress(runs) }
    }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress<const N: usize>(runs: [Run<'_>; N]) {
    let count = runs.iter().map(|run| run.blocks.len()).min().unwrap_or(0);
    debug_assert!(runs.iter().all(|run| run.blocks.len() == count));

    // The instructions want the state as (a, b, e, f) and (c, d, g, h).
    let (mut abef, mut cdgh) = ([_mm_set_epi64x(0, 0); N], [_mm_set_epi64x(0, 0); N]);
    for lane in 0..N {
        let (low, high) = load_state(runs[lane].state);
        let cdab = _mm_shuffle_epi32(low, 0xb1);
        let efgh = _mm_shuffle_epi32(high, 0x1b);
        abef[lane] = _mm_alignr_epi8(cdab, efgh, 8);
        cdgh[lane] = _mm_blend_epi16(efgh, cdab, 0xf0);
    }

    for index in 0..count {
        // In memory, where they are out of the way: else the compiler may move the states there and back.
        let (abef_before, cdgh_before) = black_box((abef, cdgh));
        let mut words = [[_mm_set_epi64x(0, 0); N]; 4];
        for (i, words) in words.iter_mut().enumerate() {
            let constants = round_constants(i);
            for lane in 0..N {
                words[lane] = load_words(&runs[lane].blocks[index], i);
                let sums = _mm_add_epi32(words[lane], constants);
                four_rounds(&mut abef[lane], &mut cdgh[lane], sums);
            }
        }
        // The next four words follow from the last sixteen, and take the place of the oldest. Kept a loop: in its
        // unrolled form the compiler has been seen to put one lane's steps after the other's.
        for group in 1..black_box(4) {
            for i in 0..4 {
                let constants = round_constants(4 * group + i);
                for lane in 0..N {
                    let (b, c, d) = (words[(i + 1) % 4][lane], words[(i + 2) % 4][lane], words[(i + 3) % 4][lane]);
                    words[i][lane] = next_words(words[i][lane], b, c, d);
                    let sums = _mm_add_epi32(words[i][lane], constants);
                    four_rounds(&mut abef[lane], &mut cdgh[lane], sums);
                }
            }
        }
        for lane in 0..N {
            abef[lane] = _mm_add_epi32(abef[lane], abef_before[lane]);
            cdgh[lane] = _mm_add_epi32(cdgh[lane], cdgh_before[lane]);
        }
    }

    for (run, (abef, cdgh)) in runs.into_iter().zip(abef.into_iter().zip(cdgh)) {
        let feba = _mm_shuffle_epi32(abef, 0x1b);
        let dchg = _mm_shuffle_epi32(cdgh, 0xb1);
        let abcd = _mm_blend_epi16(feba, dchg, 0xf0);
        store_state(run.state, abcd, _mm_alignr_epi8(dchg, feba, 8));
    }
}

#[inline]
#[target_feature(enable = "sha")]
fn four_rounds(abef: &mut __m128i, cdgh: &mut __m128i, sums: __m128i) {
    *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sums);
    *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sums, 0x0e));
}

/// The four message words after the given sixteen.
#[inline]
#[target_feature(enable = "sha,ssse3")]
fn next_words(a: __m128i, b: __m128i, c: __m128i, d: __m128i) -> __m128i {
    _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), d)
}

#[inline]
#[target_feature(enable = "sse2")]
fn round_constants(i: usize) -> __m128i {
    let constants: &[u32; 4] = &ROUND_CONSTANTS.0[i];
    // SAFETY: sixteen bytes, and their place is a multiple of sixteen since the table is aligned to 64.
    unsafe { _mm_load_si128(constants.as_ptr().cast()) }
}

/// The `i`th four message words of a block.
#[inline]
#[target_feature(enable = "ssse3")]
fn load_words(block: &[u8; BLOCK], i: usize) -> __m128i {
    let bytes: &[u8; 16] = &block.as_chunks().0[i];
    // SAFETY: sixteen readable bytes; this load needs no alignment.
    let words = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    _mm_shuffle_epi8(words, _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203))
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_state(state: &[u32; 8]) -> (__m128i, __m128i) {
    let halves: &[[u32; 4]] = state.as_chunks().0;
    // SAFETY: sixteen readable bytes each; this load needs no alignment.
    unsafe { (_mm_loadu_si128(halves[0].as_ptr().cast()), _mm_loadu_si128(halves[1].as_ptr().cast())) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn store_state(state: &mut [u32; 8], low: __m128i, high: __m128i) {
    let halves: &mut [[u32; 4]] = state.as_chunks_mut().0;
    // SAFETY: sixteen writable bytes each; this store needs no alignment.
    unsafe {
        _mm_storeu_si128(halves[0].as_mut_ptr().cast(), low);
        _mm_storeu_si128(halves[1].as_mut_ptr().cast(), high);
    }
}
