//! Recompute every hash of an artifact from its stored bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::error::ServiceError;
use super::lookup::{files, groups};
use super::registry::{Registry, now_micros, rfc3339};
use crate::api::artifact::{Verification, VerifyAnswer};
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::error::DomainError;
use crate::core::intake::scan::{PIECE, Scan};
use crate::core::intake::{Verified, hash_mismatch};
use crate::core::limits::Limits;
use crate::store::blob::BlobKey;

impl Registry {
    /// Reads all stored bytes of an artifact and recomputes H1, each H2 and each H4.
    ///
    /// # Errors
    /// When anything differs from what was recorded; the damaged files are marked and served to nobody until the
    /// artifact is pushed again. When the caller expected another hash.
    pub async fn verify_artifact(
        &self,
        hash: ContentHash,
        expected: Option<&str>,
    ) -> Result<VerifyAnswer, ServiceError> {
        if expected.is_some_and(|expected| expected != hash.to_string()) {
            return Err(hash_mismatch(expected.unwrap_or_default(), &hash.to_string()).into());
        }
        let known = self.known(hash).await?;
        let text = self.header_text(hash, &known).await?;
        let keys: Option<Vec<BlobKey>> = known.row.files.iter().map(|file| BlobKey::parse(&file.blob.key)).collect();
        let (blobs, header_digest) = (self.blobs.clone(), known.row.header_digest);
        let computed = tokio::task::spawn_blocking(move || {
            if BlobDigest::of(&text) != header_digest {
                return Err(DomainError::integrity("the stored header is not what was received"));
            }
            let damaged = |_| DomainError::integrity("a stored file cannot be opened");
            let files = keys.unwrap_or_default().into_iter().map(|key| blobs.read(&key).map_err(damaged));
            recompute(&text, &files.collect::<Result<Vec<_>, _>>()?)
        })
        .await?;
        let told = |file: &crate::store::meta::artifact::FileRow| (file.name.clone(), file.digest);
        let verdict = computed.and_then(|verified| {
            let stored: Vec<_> = known.row.files.iter().map(told).collect();
            let found: Vec<_> = verified.files().iter().map(|file| (file.name.clone(), file.digest)).collect();
            let group_hashes = verified.groups().iter().map(|group| group.digest);
            if stored == found && known.row.groups.iter().map(|group| group.digest).eq(group_hashes) {
                return Ok(());
            }
            Err(DomainError::integrity("a stored file is not what was received"))
        });
        self.memory.forget(hash);
        if let Err(error) = verdict {
            // Mark exactly the files whose own digest is wrong; a reader would find the same.
            for file in &known.row.files {
                self.shelf.forget(std::iter::once(file.digest));
                self.distrust(file.digest, &file.blob.key).await?;
            }
            self.witness(&error, Some(hash)).await;
            return Err(ServiceError::Damaged(error.remedy("Push the artifact again; that repairs the stored copy.")));
        }
        let at = now_micros();
        self.meta.set_verified(hash, at, "verify").await?;
        Ok(VerifyAnswer {
            ok: true,
            content_hash: hash.to_string(),
            files: files(hash, &known.row),
            groups: groups(hash, &known.row),
            verified: Verification { at: rfc3339(at), how: "verify".to_owned() },
        })
    }

    /// Hashes one file and marks it when it is wrong.
    async fn distrust(&self, digest: BlobDigest, key: &str) -> Result<(), ServiceError> {
        let blobs = self.blobs.clone();
        let parsed = BlobKey::parse(key);
        let got = tokio::task::spawn_blocking(move || {
            parsed.and_then(|key| blobs.read(&key).and_then(|file| super::shelf::digest_of(&file)).ok())
        })
        .await?;
        if got != Some(digest) {
            self.meta.set_damaged(digest, key, now_micros()).await?;
        }
        Ok(())
    }
}

/// All hashes of an artifact from its header and files. Blocks.
pub(super) fn recompute(text: &[u8], files: &[File]) -> Result<Verified, DomainError> {
    let header = Arc::new(Header::parse(text, &Limits::STORED)?);
    let mut scan = Scan::new(header, vec![None; files.len()], Limits::STORED);
    let mut buffer = vec![0; PIECE];
    let unreadable = |_| DomainError::integrity("a stored file cannot be read");
    for (index, file) in files.iter().enumerate() {
        loop {
            let read = file.read_at(&mut buffer, scan.seen(index)).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            scan.take(index, &buffer[..read])?;
        }
    }
    while let Some(extent) = scan.pending() {
        let piece = &mut buffer[..usize::try_from(extent.len).unwrap_or(PIECE)];
        let file = files.get(extent.file).ok_or_else(|| DomainError::integrity("a stored file is missing"))?;
        file.read_exact_at(piece, extent.start).map_err(unreadable)?;
        scan.take_again(extent, piece);
    }
    scan.finish(None)
}
