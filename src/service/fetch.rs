//! Bytes on their way out: stored files, and views that are ranges of them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::error::ServiceError;
use super::lookup::Known;
use super::registry::Registry;
use super::shelf::OpenBlob;
use crate::core::digest::{BlobDigest, ContentHash, GroupHash, to_hex};
use crate::core::error::DomainError;
use crate::core::recipe::{Extent, Recipe, Source, slice};
use crate::core::sha256::Sha256;
use crate::core::tar;
use crate::store::meta::StoreError;

/// A run of bytes to send.
#[derive(Clone, Debug)]
pub enum Part {
    /// These bytes.
    Bytes(Bytes),
    /// A range of an open file.
    File {
        /// The file.
        blob: Arc<OpenBlob>,
        /// Offset of the first byte.
        start: u64,
        /// Bytes.
        len: u64,
    },
}

/// Something to send: what it is, and where its bytes are.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Bytes.
    pub len: u64,
    /// SHA-256 of the whole, where it is known.
    pub digest: Option<[u8; 32]>,
    /// What makes this representation different from every other, without quotes.
    pub tag: String,
    /// The name under which a person would save it.
    pub file_name: String,
    /// Element type token and dimensions, for a tensor.
    pub tensor: Option<(&'static str, Vec<u64>)>,
    sources: Vec<Source>,
    blobs: Vec<Arc<OpenBlob>>,
}

impl Fetched {
    /// Bytes in memory, which are known to be right.
    pub(super) fn literal(bytes: Vec<u8>, digest: BlobDigest, file_name: String) -> Self {
        Self {
            len: bytes.len() as u64,
            digest: Some(*digest.as_bytes()),
            tag: digest.to_string(),
            file_name,
            tensor: None,
            sources: vec![Source::Literal(bytes)],
            blobs: Vec::new(),
        }
    }

    /// The bytes in `start..start + len`.
    #[must_use]
    pub fn parts(&self, start: u64, len: u64) -> Vec<Part> {
        let part = |source| match source {
            Source::Literal(bytes) => Part::Bytes(bytes.into()),
            Source::Stored(Extent { file, start, len }) => {
                Part::File { blob: Arc::clone(&self.blobs[file]), start, len }
            }
        };
        slice(&self.sources, start, len).into_iter().map(part).collect()
    }

    /// A check for the moment before the last byte leaves: fails when a file was touched meanwhile.
    pub fn last_check(&self) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let blobs = self.blobs.clone();
        move || {
            if blobs.iter().all(|blob| blob.untouched()) {
                return Ok(());
            }
            Err(io::Error::other("a stored file was changed while it was sent"))
        }
    }
}

impl Fetched {
    /// One whole stored file.
    pub(super) fn file(blob: Arc<OpenBlob>, len: u64, digest: BlobDigest, file_name: String) -> Self {
        Self {
            len,
            digest: Some(*digest.as_bytes()),
            tag: digest.to_string(),
            file_name,
            tensor: None,
            sources: vec![Source::Stored(Extent { file: 0, start: 0, len })],
            blobs: vec![blob],
        }
    }
}

impl Registry {
    /// `header.json` as it was received.
    ///
    /// # Errors
    /// When the artifact is not here.
    pub async fn fetch_header(&self, hash: ContentHash) -> Result<Fetched, ServiceError> {
        let known = self.known(hash).await?;
        let text = self.header_text(hash, &known).await?;
        Ok(Fetched::literal(text, known.row.header_digest, "header.json".to_owned()))
    }

    /// The stored text of a header, compared with its digest: it lies in the database, whose bytes can change too.
    pub(super) async fn header_text(&self, hash: ContentHash, known: &Known) -> Result<Vec<u8>, ServiceError> {
        let text = self.meta.header(hash).await?.ok_or_else(|| ServiceError::not_found("the artifact"))?;
        let digest = known.row.header_digest;
        if BlobDigest::of(&text) == digest {
            return Ok(text);
        }
        let error = DomainError::integrity("the stored header is not what was received")
            .field("expected_hash", digest.to_string())
            .field("path", "header.json");
        self.witness(&error, Some(hash)).await;
        Err(ServiceError::Damaged(error))
    }

    /// A stored file.
    ///
    /// # Errors
    /// When it is not here, or damaged.
    pub async fn fetch_file(&self, hash: ContentHash, name: &str) -> Result<Fetched, ServiceError> {
        let known = self.known(hash).await?;
        let row = known.row.files.iter().find(|file| file.name == name);
        let row = row.ok_or_else(|| ServiceError::not_found("a file of this name"))?;
        let blob = self.open_blob(hash, row).await?;
        Ok(Fetched::file(blob, row.blob.size, row.digest, name.to_owned()))
    }

    /// A parameter group with bare names.
    ///
    /// # Errors
    /// When it is not here, or damaged.
    pub async fn fetch_group(&self, hash: ContentHash, name: &str) -> Result<Fetched, ServiceError> {
        let known = self.known(hash).await?;
        let row = known.row.groups.iter().find(|group| group.name == name);
        let row = row.ok_or_else(|| ServiceError::not_found("a parameter group of this name"))?;
        let (layout, blobs) = self.layout(hash, &known).await?;
        let group = layout.groups.iter().find(|group| group.name == name);
        let group = group.ok_or(StoreError::Corrupt { table: "artifact_groups", column: "name" })?;
        Ok(Fetched {
            len: group.len,
            digest: Some(*row.digest.as_bytes()),
            tag: row.digest.to_string(),
            file_name: format!("{name}.safetensors"),
            tensor: None,
            sources: group.recipe.sources(|index| layout.places[index]),
            blobs,
        })
    }

    /// A parameter group by its own hash, from whichever artifact holds it undamaged.
    ///
    /// # Errors
    /// When no artifact holds it, or all are damaged.
    pub async fn fetch_params(&self, group: GroupHash) -> Result<Fetched, ServiceError> {
        let mut failed = ServiceError::not_found("a parameter group with this hash");
        for (hash, name) in self.meta.group_holders(group).await? {
            match self.fetch_group(hash, &name).await {
                Ok(fetched) => return Ok(fetched),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The element bytes of one tensor.
    ///
    /// # Errors
    /// When it is not here, or damaged.
    pub async fn fetch_tensor(&self, hash: ContentHash, name: &str) -> Result<Fetched, ServiceError> {
        let known = self.known(hash).await?;
        let (layout, blobs) = self.layout(hash, &known).await?;
        let index = layout.header.entry(name).ok_or_else(|| ServiceError::not_found("a tensor of this name"))?;
        let entry = &layout.header.manifest[index];
        let mut recipe = Recipe::default();
        recipe.tensor(index);
        Ok(Fetched {
            len: entry.len,
            digest: None,
            tag: format!("{hash}.{index}"),
            file_name: format!("{name}.bin"),
            tensor: Some((entry.dtype.token(), entry.shape.to_vec())),
            sources: recipe.sources(|index| layout.places[index]),
            blobs,
        })
    }

    /// The directory as a tar, as `PUT` takes it.
    ///
    /// # Errors
    /// When it is not here, or damaged.
    pub async fn fetch_archive(&self, hash: ContentHash) -> Result<Fetched, ServiceError> {
        let known = self.known(hash).await?;
        let header = self.header_text(hash, &known).await?;
        let mut blobs = Vec::with_capacity(known.row.files.len());
        let mut recipe = Recipe::default();
        let add = |recipe: &mut Recipe, name: &str, len: u64, body: &dyn Fn(&mut Recipe)| {
            recipe.literal(&tar::file_header(name, len));
            body(recipe);
            recipe.literal(tar::file_padding(len));
        };
        add(&mut recipe, "header.json", header.len() as u64, &|recipe| recipe.literal(&header));
        for (index, file) in known.row.files.iter().enumerate() {
            blobs.push(self.open_blob(hash, file).await?);
            let len = file.blob.size;
            add(&mut recipe, &file.name, len, &|recipe| recipe.file(index, len));
        }
        recipe.literal(tar::END);
        let sources = recipe.sources(|_| Extent { file: 0, start: 0, len: 0 });
        Ok(Fetched {
            len: sources.iter().map(Source::len).sum(),
            digest: None,
            tag: format!("{hash}.tar"),
            file_name: format!("{}.tar", &hash.to_string()[..12]),
            tensor: None,
            sources,
            blobs,
        })
    }
}

/// A strong entity tag.
#[must_use]
pub fn etag(tag: &str) -> String {
    if tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
        format!("\"{tag}\"")
    } else {
        format!("\"{}\"", to_hex(&Sha256::digest(tag.as_bytes())))
    }
}
