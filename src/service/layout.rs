//! Where the tensors of a stored artifact lie in its files, read from the headers of both.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::error::ServiceError;
use crate::core::canonical::{self, Group};
use crate::core::checkpoint::Header;
use crate::core::error::DomainError;
use crate::core::intake::{FileIntake, Intake};
use crate::core::limits::Limits;
use crate::core::recipe::Extent;

/// The places of an artifact's tensors, and the groups that are made of them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) header: Header,
    /// By position in the manifest.
    pub(super) places: Vec<Extent>,
    pub(super) groups: Vec<Group>,
}

impl Layout {
    /// Reads the layout of an artifact from its header and its open files, in its order. Blocks.
    ///
    /// Everything here was verified when it was taken in, so what does not fit is damage, not a refusal.
    pub(super) fn read(text: &[u8], files: &[Arc<File>]) -> Result<Self, ServiceError> {
        let header = Arc::new(Header::parse(text, &Limits::STORED).map_err(ServiceError::Damaged)?);
        let mut intake = Intake::new(Arc::clone(&header));
        let mut buffer = vec![0; 64 << 10];
        for (index, file) in files.iter().enumerate().take(header.weight_files.len()) {
            let mut head = FileIntake::new(&header, index, None, &Limits::STORED);
            while head.container().is_none() {
                let read = file.read_at(&mut buffer, head.seen()).map_err(ServiceError::io("read a stored file"))?;
                if read == 0 {
                    return Err(damaged("a stored file has no header"));
                }
                head.check(&buffer[..read]).map_err(ServiceError::Damaged)?;
            }
            if let Some(container) = head.container() {
                intake.place(index, container).map_err(ServiceError::Damaged)?;
            }
        }
        let places = intake.places().iter().copied().collect::<Option<_>>();
        let places = places.ok_or_else(|| damaged("a tensor is in no stored file"))?;
        drop(intake);
        let groups = canonical::groups(&header);
        Ok(Self { header: Arc::unwrap_or_clone(header), places, groups })
    }
}

fn damaged(message: &str) -> ServiceError {
    ServiceError::Damaged(DomainError::integrity(message))
}
