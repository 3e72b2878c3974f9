//! Bytes on their way out: stored files, and views that are ranges of them.
//!
//! A file's bytes were verified when they came in. As long as the file system says that nothing has touched the file
//! since ([`Stamp`]), they are sent without being hashed again; otherwise they are verified before the first byte is
//! sent. So bytes that fail verification are never served, and bytes that pass it are served at full speed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use quick_cache::sync::Cache;

use super::error::ServiceError;
use super::lookup::Known;
use super::registry::{Registry, now_micros};
use super::session::{READ_BACK, chunk_len, lock};
use crate::core::canonical::{self, Group};
use crate::core::checkpoint::Header;
use crate::core::digest::{BlobDigest, ContentHash, GroupHash, to_hex};
use crate::core::error::DomainError;
use crate::core::intake::{FileIntake, Intake};
use crate::core::recipe::{Extent, Recipe, Source, slice};
use crate::core::sha256::Sha256;
use crate::core::tar;
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
        let linked = self.file.metadata().is_ok_and(|data| data.nlink() > 0);
        linked && Stamp::of(&self.file).is_ok_and(|stamp| stamp == self.stamp)
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

/// Where the tensors of an artifact lie in its files.
#[derive(Debug)]
struct Layout {
    header: Header,
    places: Vec<Extent>,
    groups: Vec<Group>,
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

impl Registry {
    /// `header.json` as it was received.
    ///
    /// # Errors
    /// When the artifact is not here.
    pub async fn fetch_header(&self, hash: ContentHash) -> Result<Fetched, ServiceError> {
        let known = self.known(hash).await?;
        let text = self.header_text(hash, &known).await?;
        let digest = known.row.header_digest;
        Ok(Fetched {
            len: text.len() as u64,
            digest: Some(*digest.as_bytes()),
            tag: digest.to_string(),
            file_name: "header.json".to_owned(),
            tensor: None,
            sources: vec![Source::Literal(text)],
            blobs: Vec::new(),
        })
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
        Ok(Fetched {
            len: row.blob.size,
            digest: Some(*row.digest.as_bytes()),
            tag: row.digest.to_string(),
            file_name: name.to_owned(),
            tensor: None,
            sources: vec![Source::Stored(Extent { file: 0, start: 0, len: row.blob.size })],
            blobs: vec![blob],
        })
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

    /// Where the tensors lie, and the open files, both in the artifact's order.
    async fn layout(&self, hash: ContentHash, known: &Known) -> Result<(Arc<Layout>, Vec<Arc<OpenBlob>>), ServiceError> {
        let mut blobs = Vec::with_capacity(known.row.files.len());
        for file in &known.row.files {
            blobs.push(self.open_blob(hash, file).await?);
        }
        if let Some(layout) = self.shelf.layouts.get(&hash) {
            return Ok((layout, blobs));
        }
        let text = self.header_text(hash, known).await?;
        let limits = self.options.limits;
        let files: Vec<Arc<File>> = blobs.iter().map(|blob| Arc::clone(&blob.file)).collect();
        let layout = tokio::task::spawn_blocking(move || {
            let header = Arc::new(Header::parse(&text, &limits)?);
            let mut intake = Intake::new(Arc::clone(&header));
            let mut buffer = vec![0; 64 << 10];
            for (index, file) in files.iter().enumerate().take(header.weight_files.len()) {
                let mut head = FileIntake::new(&header, index, None, &limits);
                while head.container().is_none() {
                    let read = file.read_at(&mut buffer, head.seen()).map_err(ServiceError::io("read a stored file"))?;
                    if read == 0 {
                        return Err(ServiceError::Damaged(DomainError::integrity("a stored file has no header")));
                    }
                    head.check(&buffer[..read])?;
                }
                if let Some(container) = head.container() {
                    intake.place(index, container)?;
                }
            }
            let places = intake.places().iter().copied().collect::<Option<Vec<_>>>();
            let places = places.ok_or_else(|| ServiceError::Damaged(DomainError::integrity("a tensor is missing")))?;
            drop(intake);
            let groups = canonical::groups(&header);
            let header = Arc::unwrap_or_clone(header);
            Ok::<_, ServiceError>(Arc::new(Layout { header, places, groups }))
        })
        .await??;
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
fn open_verified(opened: &io::Result<File>, expected: BlobDigest, row: &BlobRow) -> Result<(OpenBlob, bool), DomainError> {
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
        let take = chunk_len(&buffer, u64::MAX);
        match file.read_at(&mut buffer[..take], hasher.len())? {
            0 => return Ok(BlobDigest::from_bytes(hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
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
