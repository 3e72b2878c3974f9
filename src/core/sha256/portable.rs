//! The compression function of the `sha2` crate, for CPUs this module has no instructions for: one lane after the
//! other.

use super::kernel::Run;

/// Compresses all runs.
pub(super) fn compress<const N: usize>(runs: [Run<'_>; N]) {
    for run in runs {
        sha2::block_api::compress256(run.state, run.blocks);
    }
}
