//! One pass over the files of an artifact that is at hand as a whole, or comes file by file: joins the intake with the
//! positions in the files.

use std::sync::Arc;

use super::artifact::{Intake, Verified};
use super::file::FileIntake;
use crate::core::checkpoint::Header;
use crate::core::error::DomainError;
use crate::core::limits::Limits;
use crate::core::recipe::Extent;
use crate::core::safetensors::header::Container;
use crate::core::shards;

/// Bytes that are read, hashed and handed on at a time.
pub const PIECE: usize = 1 << 20;

/// An artifact whose bytes are seen file by file, each from its first byte on.
pub struct Scan {
    intake: Intake,
    files: Vec<FileIntake>,
    lens: Vec<Option<u64>>,
    limits: Limits,
}

impl Scan {
    /// `lens` has one entry for each weight file and one more if there is an index; its length where that is known.
    #[must_use]
    pub fn new(header: Arc<Header>, lens: Vec<Option<u64>>, limits: Limits) -> Self {
        let files =
            lens.iter().enumerate().map(|(index, len)| FileIntake::new(&header, index, *len, &limits)).collect();
        Self { intake: Intake::new(header), files, lens, limits }
    }

    /// Bytes of a file that were taken.
    #[must_use]
    pub fn seen(&self, file: usize) -> u64 {
        self.files[file].seen()
    }

    /// Takes the next bytes of a file.
    ///
    /// # Errors
    /// When they are not what the header promises; the file's name is in the fields.
    pub fn take(&mut self, file: usize, chunk: &[u8]) -> Result<(), DomainError> {
        let Self { intake, files, .. } = self;
        let own = &mut files[file];
        let offset = own.seen();
        let in_file = |error: DomainError| {
            let name = intake.header().weight_files.get(file).map_or(shards::INDEX, String::as_str).to_owned();
            error.field("file", name)
        };
        let complete = own.check(chunk).map_err(in_file)?;
        if complete && let Some(container) = own.container() {
            intake.place(file, container)?;
        }
        intake.absorb(file, offset, chunk, Some(own));
        Ok(())
    }

    /// Compares a container's header with the artifact's, and with those of the other files.
    ///
    /// # Errors
    /// When they disagree.
    pub fn place(&mut self, file: usize, container: &Container) -> Result<(), DomainError> {
        self.intake.place(file, container)
    }

    /// Forgets a file that will be seen anew from its first byte.
    pub fn restart(&mut self, file: usize) {
        self.intake.forget(file);
        self.files[file] = FileIntake::new(self.intake.header(), file, self.lens[file], &self.limits);
    }

    /// What has to be read again, at most one piece of it, because it came before its turn in the canonical order.
    #[must_use]
    pub fn pending(&self) -> Option<Extent> {
        self.intake.pending().map(|extent| Extent { len: extent.len.min(PIECE as u64), ..extent })
    }

    /// Takes what [`pending`](Self::pending) asked for.
    pub fn take_again(&mut self, extent: Extent, chunk: &[u8]) {
        self.intake.absorb(extent.file, extent.start, chunk, None);
    }

    /// Judges the whole.
    ///
    /// # Errors
    /// When bytes are missing or a hash differs.
    pub fn finish(&mut self, expected: Option<&str>) -> Result<Verified, DomainError> {
        self.intake.finish(&self.files.iter().collect::<Vec<_>>(), expected)
    }
}
