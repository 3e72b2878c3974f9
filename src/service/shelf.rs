//! Stored files that are open and known to be right, and the layouts of artifacts read lately.
//!
//! A file's bytes were verified when they came in. As long as the file system says that nothing has touched the file
//! since ([`Stamp`]), they are sent without being hashed again; otherwise they are verified before the first byte is
//! sent. So bytes that fail verification are never served, and bytes that pass it are served at full speed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, Weak};

use quick_cache::sync::Cache;

use super::error::ServiceError;
use super::layout::Layout;
use super::lookup::Known;
use super::registry::{Registry, now_micros};
use super::session::{READ_BACK, lock};
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::error::DomainError;
use crate::core::sha256::Sha256;
use crate::store::blob::{BlobKey, Stamp};
use crate::store::meta::StoreError;
use crate::store::meta::artifact::{BlobRow, FileRow};

/// Files kept open for the next reader.
const OPEN_FILES: usize = 128;

/// Artifacts whose layout is kept in memory.
const LAYOUTS: usize = 16;

/// Tensors up to which a layout is worth keeping; a larger one is read again when it is needed.
const LAYOUT_TENSORS: usize = 10_000;

/// An open file whose bytes are known to be right.
#[derive(Debug)]
pub struct OpenBlob {
    file: Arc<File>,
    key: String,
    stamp: Stamp,
}

impl OpenBlob {
    /// The file.
    #[must_use]
    pub const fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// True as long as nothing has touched or removed the file. Asks an open file, whose data the kernel holds in
    /// memory, so this does not wait for a disk.
    #[must_use]
    pub fn untouched(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.nlink() > 0 && Stamp::from_metadata(&data) == self.stamp)
    }
}

/// Recently read files and layouts.
#[derive(Debug)]
pub(super) struct Shelf {
    open: Cache<BlobDigest, Arc<OpenBlob>>,
    layouts: Cache<ContentHash, Arc<Layout>>,
    /// Verifications under way, so that many readers of one file wait for one.
    verifying: Mutex<HashMap<BlobDigest, Weak<tokio::sync::Mutex<()>>>>,
}

impl Shelf {
    pub(super) fn new() -> Self {
        Self { open: Cache::new(OPEN_FILES), layouts: Cache::new(LAYOUTS), verifying: Mutex::default() }
    }

    /// Makes the next reader open the files again.
    pub(super) fn forget(&self, digests: impl Iterator<Item = BlobDigest>) {
        digests.for_each(|digest| drop(self.open.remove(&digest)));
    }

    fn turn(&self, digest: BlobDigest) -> Arc<tokio::sync::Mutex<()>> {
        let mut verifying = lock(&self.verifying);
        verifying.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = verifying.get(&digest).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        verifying.insert(digest, Arc::downgrade(&turn));
        turn
    }
}

impl Registry {
    /// Where the tensors lie, and the open files, both in the artifact's order.
    pub(super) async fn layout(
        &self,
        hash: ContentHash,
        known: &Known,
    ) -> Result<(Arc<Layout>, Vec<Arc<OpenBlob>>), ServiceError> {
        let mut blobs = Vec::with_capacity(known.row.files.len());
        for file in &known.row.files {
            blobs.push(self.open_blob(hash, file).await?);
        }
        if let Some(layout) = self.shelf.layouts.get(&hash) {
            return Ok((layout, blobs));
        }
        let text = self.header_text(hash, known).await?;
        let files: Vec<Arc<File>> = blobs.iter().map(|blob| Arc::clone(&blob.file)).collect();
        let layout = Arc::new(tokio::task::spawn_blocking(move || Layout::read(&text, &files)).await??);
        if layout.places.len() <= LAYOUT_TENSORS {
            self.shelf.layouts.insert(hash, Arc::clone(&layout));
        }
        Ok((layout, blobs))
    }

    /// Opens a file of an artifact, and verifies it first if anything has touched it.
    pub(super) async fn open_blob(&self, hash: ContentHash, file: &FileRow) -> Result<Arc<OpenBlob>, ServiceError> {
        let fresh = |blob: &Arc<OpenBlob>| blob.key == file.blob.key && blob.untouched();
        if let Some(blob) = self.shelf.open.get(&file.digest).filter(fresh) {
            return Ok(blob);
        }
        let turn = self.shelf.turn(file.digest);
        let _turn = turn.lock().await;
        if let Some(blob) = self.shelf.open.get(&file.digest).filter(fresh) {
            return Ok(blob);
        }
        // The row may have changed since it was remembered: repaired by a push, or stamped by a verification.
        let row = self.meta.blob(file.digest).await?;
        let row = row.ok_or(StoreError::Corrupt { table: "blobs", column: "digest" })?;
        if row.key != file.blob.key {
            self.memory.forget(hash);
        }
        let key = BlobKey::parse(&row.key).ok_or(StoreError::Corrupt { table: "blobs", column: "blob_key" })?;
        let (blobs, expected, told) = (self.blobs.clone(), file.digest, row.clone());
        let opened = tokio::task::spawn_blocking(move || open_verified(&blobs.read(&key), expected, &told)).await?;
        match opened {
            Ok((blob, verified)) => {
                if verified {
                    self.meta.set_stamp(file.digest, &row.key, blob.stamp.as_str()).await?;
                    self.memory.forget(hash);
                }
                let blob = Arc::new(blob);
                self.shelf.open.insert(file.digest, Arc::clone(&blob));
                Ok(blob)
            }
            Err(error) => {
                self.memory.forget(hash);
                if !row.damaged {
                    self.meta.set_damaged(file.digest, &row.key, now_micros()).await?;
                    self.witness(&error, Some(hash)).await;
                }
                Err(ServiceError::Damaged(error.field("path", file.name.as_str())))
            }
        }
    }

    /// True when a blob's file is there and nothing has touched it since it was verified.
    pub(super) async fn looks_right(&self, row: &BlobRow) -> Result<bool, ServiceError> {
        let (Some(key), false) = (BlobKey::parse(&row.key), row.damaged) else { return Ok(false) };
        let blobs = self.blobs.clone();
        let stamp = tokio::task::spawn_blocking(move || blobs.read(&key).and_then(|file| Stamp::of(&file))).await?;
        Ok(stamp.is_ok_and(|stamp| stamp.as_str() == row.stamp))
    }
}

/// The open file, and whether its bytes had to be hashed for that. Blocks.
fn open_verified(
    opened: &io::Result<File>,
    expected: BlobDigest,
    row: &BlobRow,
) -> Result<(OpenBlob, bool), DomainError> {
    let damaged = |message: &str| {
        DomainError::integrity(format!("a stored file {message}"))
            .field("expected_hash", expected.to_string())
            .remedy("Push the artifact again; that repairs the stored copy.")
    };
    let file = opened.as_ref().map_err(|_| damaged("cannot be opened"))?;
    let file = Arc::new(file.try_clone().map_err(|_| damaged("cannot be opened"))?);
    let stamp = Stamp::of(&file).map_err(|_| damaged("cannot be looked at"))?;
    let open = |stamp| OpenBlob { file: Arc::clone(&file), key: row.key.clone(), stamp };
    if !row.damaged && stamp.as_str() == row.stamp {
        return Ok((open(stamp), false));
    }
    let got = digest_of(&file).map_err(|_| damaged("cannot be read"))?;
    // A change while it was read would show in the stamp.
    if got != expected || Stamp::of(&file).ok().as_ref() != Some(&stamp) {
        return Err(damaged("is not what was received").field("got_hash", got.to_string()));
    }
    Ok((open(stamp), true))
}

/// SHA-256 of a whole file. Blocks.
pub(super) fn digest_of(file: &File) -> io::Result<BlobDigest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BACK];
    loop {
        match file.read_at(&mut buffer, hasher.len())? {
            0 => return Ok(BlobDigest::from_bytes(hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}
