//! Keeping the runtime off the disk: what of a file is in memory, and bringing there what is not.
//!
//! `sendfile` and `pread` block while a page comes from the disk, and a worker thread of the runtime that blocks stops
//! every connection it serves. So pages are probed first, with reads that refuse to wait (`RWF_NOWAIT`), and missing
//! ones are read on the blocking pool.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    num::NonZeroU64,
};

use bytes::Bytes;
use rustix::{
    fs::Advice,
    io::{Errno, ReadWriteFlags},
};

/// How far apart probes are: the kernel's usual read-ahead, below which it seldom leaves a hole.
const STRIDE: usize = 128 << 10;

/// How far ahead of a window that has to come from the disk the kernel is asked to read on.
const AHEAD: u64 = 8 << 20;

/// Whether a part of a file can be read without waiting for the disk, as far as probes tell.
///
/// Never true on a file system that cannot tell.
pub(super) fn resident(file: &File, offset: u64, len: usize) -> io::Result<bool> {
    let last = len.saturating_sub(1);
    for at in (0..last).step_by(STRIDE).chain([last]) {
        if read_nowait(file, &mut [0], offset + at as u64)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads a part of a file if that takes no waiting for the disk.
pub(super) fn read_resident(file: &File, offset: u64, len: usize) -> io::Result<Option<Bytes>> {
    let mut buffer = vec![0; len];
    let read = read_nowait(file, &mut buffer, offset)?;
    // A short read ended at a page that is not there, and what it took is read again together with that.
    Ok((read == Some(len)).then(|| buffer.into()))
}

/// Reads a part of a file. Blocks.
pub(super) fn read(file: &File, offset: u64, len: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; len];
    read_exact(file, &mut buffer, offset)?;
    Ok(buffer.into())
}

/// Brings a part of a file into memory, and has the kernel read on behind it, up to `end` at most. Blocks.
///
/// `advised` is up to where the kernel was told before. Returns the new one.
pub(super) fn warm(file: &File, offset: u64, len: usize, advised: u64, end: u64) -> io::Result<u64> {
    let until = (offset + len as u64 + AHEAD).min(end);
    let from = offset.max(advised);
    if let Some(ahead) = until.checked_sub(from).and_then(NonZeroU64::new) {
        // Only advice: what it would have brought is read below or at the next window.
        let _ = rustix::fs::fadvise(file, from, Some(ahead), Advice::WillNeed);
    }
    let mut scratch = vec![0; len.min(STRIDE)];
    for at in (0..len).step_by(STRIDE) {
        let part = STRIDE.min(len - at);
        read_exact(file, &mut scratch[..part], offset + at as u64)?;
    }
    Ok(until.max(advised))
}

/// Reads without waiting. `None` if that is impossible, now or on this file system.
fn read_nowait(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    let read = rustix::io::retry_on_intr(|| {
        rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
    });
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(Some(read)),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read_exact(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}
