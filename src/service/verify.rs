//! Recompute every hash of an artifact from its stored bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::error::ServiceError;
use super::lookup::{files, groups};
use super::registry::{Registry, now_micros, rfc3339};
use super::session::{READ_BACK, chunk_len};
use crate::api::artifact::{Verification, VerifyAnswer};
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash};
use crate::core::error::DomainError;
use crate::core::intake::{FileIntake, Intake, Verified, hash_mismatch};
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
    let mut intake = Intake::new(Arc::clone(&header));
    let mut buffer = vec![0; READ_BACK];
    let unreadable = |_| DomainError::integrity("a stored file cannot be read");
    let mut taken = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let mut own = FileIntake::new(&header, index, None, &Limits::STORED);
        loop {
            let at = own.seen();
            let read = file.read_at(&mut buffer, at).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            if own.check(&buffer[..read])?
                && let Some(container) = own.container()
            {
                intake.place(index, container)?;
            }
            intake.absorb(index, at, &buffer[..read], Some(&mut own));
        }
        taken.push(own);
    }
    while let Some(extent) = intake.pending() {
        let take = chunk_len(&buffer, extent.len);
        let file = files.get(extent.file).ok_or_else(|| DomainError::integrity("a stored file is missing"))?;
        file.read_exact_at(&mut buffer[..take], extent.start).map_err(unreadable)?;
        intake.absorb(extent.file, extent.start, &buffer[..take], None);
    }
    intake.finish(&taken.iter().collect::<Vec<_>>(), None)
}
