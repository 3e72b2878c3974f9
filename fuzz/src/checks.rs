//! What must hold for any input. The fuzz targets and the property tests of `tests/it/properties.rs` share these, so
//! that a check is written once; each panics when it does not hold.

use std::sync::Arc;

use cairn::api::problem::Problem;
use cairn::api::range::{Wanted, wanted};
use cairn::core::checkpoint::Header;
use cairn::core::digest::{BlobDigest, ContentHash, GroupHash};
use cairn::core::error::DomainError;
use cairn::core::intake::{FileIntake, Intake, Verified};
use cairn::core::limits::Limits;
use cairn::core::safetensors::decoder::Decoder;
use cairn::core::safetensors::dtype::Dtype;
use cairn::core::safetensors::header::Container;
use cairn::core::tar;

const LIMITS: &Limits = &Limits::DEFAULT;

/// Lengths of pieces, different for each input and always the same for one.
pub struct Cuts(u64);

impl Cuts {
    /// The cuts of this input.
    pub fn of(data: &[u8]) -> Self {
        // FNV-1a; never 0, which xorshift would not leave.
        Self(
            data.iter()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
                | 1,
        )
    }

    /// The length of the next piece of `left` bytes.
    fn next(&mut self, left: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let most = [1, 16, 600, 1 << 17][(self.0 >> 40) as usize % 4];
        (1 + (self.0 >> 8) as usize % most).min(left)
    }

    /// The pieces of an input.
    fn pieces<'a>(&mut self, mut data: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !data.is_empty() {
            let (piece, rest) = data.split_at(self.next(data.len()));
            pieces.push(piece);
            data = rest;
        }
        pieces
    }
}

/// A refusal tells what is wrong in our words: no excerpt of the input, and never at length.
fn check_refusal(error: &DomainError) {
    let plain = |text: &str| text.chars().all(|c| c == ' ' || c == '…' || c.is_ascii_graphic());
    assert!(plain(error.message()), "{:?}", error.message());
    assert!(error.message().len() < 600 && !error.remediation().is_empty());
    let problem = serde_json::to_string(&Problem::new(error, 422)).unwrap();
    assert!(problem.len() < 64 << 10, "{} bytes of problem", problem.len());
}

/// For places in an input, which is in memory.
fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

fn decode(pieces: &[&[u8]], declared: Option<u64>) -> Result<Arc<Container>, DomainError> {
    let mut decoder = Decoder::new(declared, *LIMITS);
    for piece in pieces {
        decoder.push(piece)?;
    }
    decoder.finish().map(Arc::clone)
}

/// The safetensors decoder: the outcome does not depend on the cuts, and what it takes the `safetensors` crate takes.
pub fn decoder(data: &[u8]) {
    let whole = decode(&[data], None);
    let cut = decode(&Cuts::of(data).pieces(data), None);
    match (&whole, &cut) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        (Err(whole), Err(cut)) => {
            check_refusal(whole);
            assert_eq!(whole.code(), cut.code());
            // How many bytes too many there are is counted up to where they are noticed.
            if !whole.fields().contains_key("trailing_bytes") {
                assert_eq!(whole, cut);
            }
        }
        _ => panic!("the cuts decide: {whole:?}, {cut:?}"),
    }
    // A true length, told before, changes nothing; a wrong one never helps.
    let length = data.len() as u64;
    assert_eq!(decode(&[data], Some(length)).is_ok(), whole.is_ok());
    assert!(decode(&[data], Some(length + 1)).is_err());
    if let Ok(container) = whole {
        same_as_safetensors(data, &container);
    }
}

fn same_as_safetensors(data: &[u8], container: &Container) {
    let theirs = match safetensors::SafeTensors::deserialize(data) {
        Ok(theirs) => theirs,
        Err(error) => panic!("the safetensors crate refuses: {error}"),
    };
    assert_eq!(theirs.len(), container.tensors.len());
    for tensor in &container.tensors {
        let view = theirs.tensor(&tensor.name).unwrap();
        let dtype = match tensor.dtype {
            Dtype::F32 => safetensors::Dtype::F32,
            Dtype::Bf16 => safetensors::Dtype::BF16,
            Dtype::F16 => safetensors::Dtype::F16,
        };
        assert_eq!(view.dtype(), dtype);
        assert!(view.shape().iter().map(|dim| *dim as u64).eq(tensor.shape.iter().copied()));
        let start = index(tensor.start);
        assert_eq!(view.data(), &data[start..start + index(tensor.len)]);
    }
}

/// A checkpoint's header: it is read or refused, and a refusal gives nothing away.
pub fn header(data: &[u8]) {
    match Header::parse(data, LIMITS) {
        Err(error) => check_refusal(&error),
        Ok(header) => {
            assert!(header.manifest.is_sorted_by(|a, b| a.name < b.name));
            assert!(header.manifest.iter().all(|entry| ["encoder", "predictor"].contains(&entry.group())));
            for (index, entry) in header.manifest.iter().enumerate() {
                assert_eq!(header.entry(&entry.name), Some(index));
            }
            // Making what is hashed of it must not fail either.
            drop(Intake::new(Arc::new(header)));
        }
    }
}

/// What came out of an archive, and why it ended.
type Unpacked = (Vec<(String, u64, Vec<u8>)>, Result<(), DomainError>);

fn unpack(pieces: &[&[u8]]) -> Unpacked {
    let mut decoder = tar::Decoder::new();
    let mut files: Vec<(String, u64, Vec<u8>)> = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            let before = input.len();
            match decoder.next(&mut input) {
                Err(error) => return (files, Err(error)),
                Ok(tar::Event::NeedMore) => break,
                Ok(tar::Event::File { name, size }) => files.push((name, size, Vec::new())),
                Ok(tar::Event::Data(data)) => {
                    assert!(!data.is_empty());
                    files.last_mut().unwrap().2.extend_from_slice(data);
                }
                Ok(tar::Event::End) => {}
            }
            assert!(input.len() <= before);
        }
        assert!(input.is_empty(), "bytes are left over although more are wanted");
    }
    (files, decoder.finish())
}

/// The tar decoder: the same events and the same end in any cut, and files as long as they claim.
pub fn tar(data: &[u8]) {
    let whole = unpack(&[data]);
    assert_eq!(whole, unpack(&Cuts::of(data).pieces(data)));
    let (files, end) = whole;
    for (name, size, bytes) in &files {
        assert!(
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) && !name.starts_with('.')
        );
        assert!(bytes.len() as u64 <= *size);
    }
    match end {
        Err(error) => check_refusal(&error),
        Ok(()) => assert!(files.iter().all(|(_, size, bytes)| bytes.len() as u64 == *size)),
    }
}

/// The `Range` header: a part lies inside, and is the one that was asked for.
pub fn range(text: &str, size: u64) {
    let answer = wanted(text, size);
    if let Wanted::Part { start, len } = answer {
        assert!(len > 0 && start.checked_add(len).is_some_and(|end| end <= size));
    }
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|set| set.split_once('-')) else { return };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let expected = match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Wanted::Whole,
        (Some(first), Some(_)) if first >= size => Wanted::Unsatisfiable,
        (Some(first), Some(last)) => Wanted::Part { start: first, len: last.min(size - 1) - first + 1 },
        _ => return,
    };
    assert_eq!(answer, expected, "{text} of {size}");
}

/// A whole checkpoint.
pub struct Artifact {
    /// The bytes of `header.json`.
    pub header: Vec<u8>,
    /// The weight files, in the order of the header.
    pub files: Vec<Vec<u8>>,
}

/// What an artifact has become: H1, each H2, each H4.
#[derive(Debug, PartialEq, Eq)]
pub struct Hashes {
    content: ContentHash,
    groups: Vec<(&'static str, GroupHash, u64)>,
    files: Vec<(String, BlobDigest, u64)>,
}

impl Hashes {
    fn of(verified: &Verified) -> Self {
        Self {
            content: verified.content_hash(),
            groups: verified.groups().iter().map(|group| (group.name, group.digest, group.len)).collect(),
            files: verified.files().iter().map(|file| (file.name.clone(), file.digest, file.len)).collect(),
        }
    }
}

/// Takes an artifact in, file by file, each as one piece.
pub fn sequential(artifact: &Artifact) -> Result<Hashes, DomainError> {
    let mut receiver = Receiver::new(artifact)?;
    for file in 0..artifact.files.len() {
        receiver.push(file, usize::MAX)?;
    }
    receiver.finish()
}

/// Takes an artifact in as `steps` say, and whatever they leave out after them: any file next, any length, a restart
/// from the saved states, or a file sent anew. The hashes are those of the sequential way.
pub fn intake(artifact: &Artifact, steps: &[u8]) {
    const LENGTHS: [usize; 16] = [1, 2, 7, 8, 9, 17, 31, 64, 65, 100, 127, 200, 512, 1000, 4096, 70_000];
    let expected = sequential(artifact).unwrap();
    for ((_, digest, len), bytes) in expected.files.iter().zip(&artifact.files) {
        assert_eq!((*digest, *len), (BlobDigest::of(bytes), bytes.len() as u64));
    }
    let mut receiver = Receiver::new(artifact).unwrap();
    for step in steps {
        let file = usize::from(step % 16) % artifact.files.len();
        match step {
            0xf0..=0xf7 => receiver = receiver.restart().unwrap(),
            0xf8..=0xff => receiver.anew(file),
            _ => receiver.push(file, LENGTHS[usize::from(step / 16)]).unwrap(),
        }
    }
    // The rest comes backwards, which is the worst for the digests that span files.
    for file in (0..artifact.files.len()).rev() {
        receiver.push(file, usize::MAX).unwrap();
    }
    assert_eq!(receiver.finish().unwrap(), expected);
}

/// An artifact on its way in; its bytes stand for the disk.
struct Receiver<'a> {
    artifact: &'a Artifact,
    header: Arc<Header>,
    intake: Intake,
    files: Vec<FileIntake>,
}

impl<'a> Receiver<'a> {
    fn new(artifact: &'a Artifact) -> Result<Self, DomainError> {
        let header = Arc::new(Header::parse(&artifact.header, LIMITS)?);
        let files = (0..artifact.files.len()).map(|index| FileIntake::new(&header, index, None, LIMITS)).collect();
        Ok(Self { artifact, intake: Intake::new(Arc::clone(&header)), header, files })
    }

    /// The next `len` bytes of a file, or what there is.
    fn push(&mut self, file: usize, len: usize) -> Result<(), DomainError> {
        let own = &mut self.files[file];
        let start = own.seen();
        let rest = &self.artifact.files[file][index(start)..];
        let chunk = &rest[..len.min(rest.len())];
        if chunk.is_empty() {
            return Ok(());
        }
        if own.check(chunk)?
            && let Some(container) = own.container()
        {
            self.intake.place(file, container)?;
        }
        self.intake.absorb(file, start, chunk, Some(own));
        Ok(())
    }

    /// The file will be sent from its first byte again.
    fn anew(&mut self, file: usize) {
        self.intake.forget(file);
        self.files[file] = FileIntake::new(&self.header, file, Some(self.artifact.files[file].len() as u64), LIMITS);
    }

    /// What a server does when it starts again: headers are read anew, digests go on from their saved states.
    fn restart(&self) -> Result<Self, DomainError> {
        let mut fresh = Self::new(self.artifact)?;
        let mut stored = Vec::new();
        for (file, old) in self.files.iter().enumerate() {
            let bytes = &self.artifact.files[file][..index(old.seen())];
            let own = &mut fresh.files[file];
            for piece in bytes.chunks(64) {
                if own.container().is_some() {
                    break;
                }
                if own.check(piece)?
                    && let Some(container) = own.container()
                {
                    fresh.intake.place(file, container)?;
                }
            }
            assert!(own.skip(old.seen() - own.seen()));
            assert!(own.restore(&old.save()));
            stored.push(old.seen());
        }
        fresh.intake.restore(&self.intake.save(), &stored);
        Ok(fresh)
    }

    fn finish(mut self) -> Result<Hashes, DomainError> {
        while let Some(extent) = self.intake.pending() {
            let start = index(extent.start);
            let bytes = &self.artifact.files[extent.file][start..start + index(extent.len.min(97))];
            assert!(!bytes.is_empty());
            self.intake.absorb(extent.file, extent.start, bytes, None);
        }
        self.intake.finish(&self.files.iter().collect::<Vec<_>>(), None).map(|verified| Hashes::of(&verified))
    }
}

/// One bit of a weight file is the other way round: the artifact is refused.
pub fn flipped_weights(mut artifact: Artifact, at: usize) {
    let total: usize = artifact.files.iter().map(Vec::len).sum();
    let mut byte = at / 8 % total;
    let file = artifact.files.iter_mut().find(|file| {
        let here = byte < file.len();
        if !here {
            byte -= file.len();
        }
        here
    });
    file.unwrap()[byte] ^= 1 << (at % 8);
    match sequential(&artifact) {
        Err(error) => check_refusal(&error),
        Ok(_) => panic!("bit {at} can be flipped"),
    }
}

/// One bit of the header is the other way round: the artifact is refused, unless the bit lies outside of every hash.
pub fn flipped_header(mut artifact: Artifact, at: usize) {
    let before = Header::parse(&artifact.header, LIMITS).unwrap();
    let byte = at / 8 % artifact.header.len();
    artifact.header[byte] ^= 1 << (at % 8);
    if let Err(error) = sequential(&artifact) {
        return check_refusal(&error);
    }
    let after = Header::parse(&artifact.header, LIMITS).unwrap();
    let outside = Header {
        config_hash: before.config_hash,
        created_at: before.created_at.clone(),
        model_arch: before.model_arch.clone(),
        ..after
    };
    assert_eq!(outside, before, "bit {at} of the header can be flipped");
}
