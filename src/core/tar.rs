//! The tar form of an artifact directory: ustar or pax, regular files with plain names, uncompressed.
//!
//! Only what an artifact needs is understood; every other kind of member is refused, so that no two readers can
//! disagree about what an archive holds. GNU tar's spelling of the same plain headers is accepted.

use super::error::{DomainError, ErrorCode};

/// Size of a header and of the padding grid.
pub const BLOCK: usize = 512;

/// Longest extended header that is read; two numbers and a name fit many times.
const MAX_PAX: u64 = 64 << 10;

/// What the next bytes of an archive are.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// More input is needed.
    NeedMore,
    /// A file begins.
    File {
        /// Its name, a single path component.
        name: String,
        /// Its bytes.
        size: u64,
    },
    /// Bytes of the current file.
    Data(&'a [u8]),
    /// The end-of-archive marker; what follows must be zeros.
    End,
}

enum State {
    Header,
    Pax { size: u64, padding: u64 },
    Data { left: u64, padding: u64 },
    Padding { left: u64 },
    End,
}

/// Reads an archive as it arrives.
pub struct Decoder {
    state: State,
    /// Collects a header block or an extended header.
    buffer: Vec<u8>,
    pax_path: Option<String>,
    pax_size: Option<u64>,
}

fn refuse(message: &str) -> DomainError {
    DomainError::new(ErrorCode::ArtifactInvalid, format!("the tar archive {message}")).remedy(
        "Make the archive with `tar --format=ustar -C DIR -cf - header.json weights.safetensors` (or every shard), \
         or let `cairn push` send the directory.",
    )
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the first byte of an archive.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Header, buffer: Vec::new(), pax_path: None, pax_size: None }
    }

    /// Takes bytes off the front of `input` and says what they were. Call it until it answers [`Event::NeedMore`].
    ///
    /// # Errors
    /// `artifact_invalid` for anything that is not a plain archive of regular files.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, DomainError> {
        loop {
            match &mut self.state {
                State::Header => {
                    if !fill(&mut self.buffer, input, BLOCK) {
                        return Ok(Event::NeedMore);
                    }
                    let block = std::mem::take(&mut self.buffer);
                    if let Some(event) = self.header(&block)? {
                        return Ok(event);
                    }
                }
                State::Pax { size, padding } => {
                    let (size, padding) = (*size, *padding);
                    if !fill(&mut self.buffer, input, to_usize(size)) {
                        return Ok(Event::NeedMore);
                    }
                    let records = std::mem::take(&mut self.buffer);
                    self.records(&records)?;
                    self.state = State::Padding { left: padding };
                }
                State::Data { left, padding } => {
                    if *left == 0 {
                        self.state = State::Padding { left: *padding };
                        continue;
                    }
                    if input.is_empty() {
                        return Ok(Event::NeedMore);
                    }
                    let take = input.len().min(to_usize(*left));
                    let (data, rest) = input.split_at(take);
                    *left -= take as u64;
                    *input = rest;
                    return Ok(Event::Data(data));
                }
                State::Padding { left } => {
                    let take = input.len().min(to_usize(*left));
                    if input[..take].iter().any(|byte| *byte != 0) {
                        return Err(refuse("is padded with something else than zeros"));
                    }
                    *left -= take as u64;
                    *input = &input[take..];
                    if *left > 0 {
                        return Ok(Event::NeedMore);
                    }
                    self.state = State::Header;
                }
                State::End => {
                    if input.iter().any(|byte| *byte != 0) {
                        return Err(refuse("goes on after its end"));
                    }
                    *input = &[];
                    return Ok(Event::NeedMore);
                }
            }
        }
    }

    /// Checks that the archive is complete.
    ///
    /// # Errors
    /// `artifact_invalid` when it was cut short.
    pub fn finish(&self) -> Result<(), DomainError> {
        match &self.state {
            State::End => Ok(()),
            // Some writers leave the end marker out; the files themselves are judged by their own lengths.
            State::Header if self.buffer.is_empty() && self.pax_path.is_none() && self.pax_size.is_none() => Ok(()),
            State::Data { left, .. } => {
                Err(refuse(&format!("ends {left} bytes before the end of a file")).field("missing_bytes", *left))
            }
            _ => Err(refuse("is cut short")),
        }
    }

    fn header<'a>(&mut self, block: &[u8]) -> Result<Option<Event<'a>>, DomainError> {
        if block.iter().all(|byte| *byte == 0) {
            self.state = State::End;
            return Ok(Some(Event::End));
        }
        if &block[257..262] != b"ustar" {
            return Err(refuse("is neither ustar nor pax"));
        }
        let told = octal(&block[148..156]).ok_or_else(|| refuse("has a header without a checksum"))?;
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(index, byte)| u64::from(if (148..156).contains(&index) { b' ' } else { *byte }))
            .sum();
        if told != sum {
            return Err(refuse("has a header with a wrong checksum"));
        }
        let size = number(&block[124..136]).ok_or_else(|| refuse("has a header with an unreadable size"))?;
        match block[156] {
            b'0' | 0 => {
                let size = self.pax_size.take().unwrap_or(size);
                let name = match self.pax_path.take() {
                    Some(path) => path,
                    None => plain_name(block)?,
                };
                check_name(&name)?;
                self.state = State::Data { left: size, padding: padding(size) };
                Ok(Some(Event::File { name, size }))
            }
            b'x' if size <= MAX_PAX && self.pax_path.is_none() && self.pax_size.is_none() => {
                self.state = State::Pax { size, padding: padding(size) };
                Ok(None)
            }
            b'5' => Err(refuse("holds a directory; only the files themselves belong in it")),
            b'1' | b'2' => Err(refuse("holds a link; only regular files are read")),
            _ => Err(refuse("holds a member that is not a regular file")),
        }
    }

    /// Reads `LENGTH KEY=VALUE\n` records; times and owners are skipped, what would change the content is refused.
    fn records(&mut self, mut text: &[u8]) -> Result<(), DomainError> {
        let broken = || refuse("has an unreadable extended header");
        while !text.is_empty() {
            let blank = text.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
            let length =
                decimal(&text[..blank]).map(to_usize).filter(|length| (blank + 2..=text.len()).contains(length));
            let (record, rest) = text.split_at(length.ok_or_else(broken)?);
            text = rest;
            let body = record[blank + 1..].strip_suffix(b"\n").ok_or_else(broken)?;
            let equals = body.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
            let (key, value) = (&body[..equals], &body[equals + 1..]);
            match key {
                b"path" if self.pax_path.is_none() => {
                    self.pax_path = Some(String::from_utf8(value.to_vec()).map_err(|_| broken())?);
                }
                b"size" if self.pax_size.is_none() => self.pax_size = Some(decimal(value).ok_or_else(broken)?),
                b"mtime" | b"atime" | b"ctime" | b"uid" | b"gid" | b"uname" | b"gname" | b"comment" => {}
                _ => return Err(refuse("has an extended header of a kind that is not read here")),
            }
        }
        Ok(())
    }
}

/// Grows `buffer` to `size` bytes from the front of `input`; true when it is full.
fn fill(buffer: &mut Vec<u8>, input: &mut &[u8], size: usize) -> bool {
    let take = (size - buffer.len()).min(input.len());
    buffer.extend_from_slice(&input[..take]);
    *input = &input[take..];
    buffer.len() == size
}

fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

const fn padding(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

fn check_name(name: &str) -> Result<(), DomainError> {
    let plain = !name.is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if plain { Ok(()) } else { Err(refuse("holds a file whose name is not a plain file name")) }
}

fn plain_name(block: &[u8]) -> Result<String, DomainError> {
    // GNU's header has other fields where ustar has the prefix.
    if block[262] == 0 && block[345] != 0 {
        return Err(refuse("holds a file in a directory"));
    }
    let name = block[..100].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).map_err(|_| refuse("holds a file whose name is not UTF-8"))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(|c| c == ' ' || c == '\0');
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { u64::from_str_radix(digits, 8).ok() } else { None }
}

/// An octal number, or GNU's base-256 form for sizes from 8 GiB.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] != 0x80 {
        return octal(field);
    }
    let (high, low) = field[1..].split_at(field.len() - 9);
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    low.try_into().ok().map(u64::from_be_bytes)
}

/// The bytes in front of a file in an archive: a ustar header, with a pax size in front from 8 GiB on.
#[must_use]
pub fn file_header(name: &str, size: u64) -> Vec<u8> {
    const OCTAL_LIMIT: u64 = 1 << 33;
    if size < OCTAL_LIMIT {
        return ustar(name, size, b'0');
    }
    let record = |length: usize| format!("{length} size={size}\n");
    // One more digit in the length can lengthen the record by one.
    let mut length = record(0).len();
    while record(length).len() != length {
        length = record(length).len();
    }
    let records = record(length);
    let mut out = ustar("pax_size", records.len() as u64, b'x');
    out.extend_from_slice(records.as_bytes());
    out.extend_from_slice(file_padding(records.len() as u64));
    out.extend_from_slice(&ustar(name, 0, b'0'));
    out
}

/// The zeros after a file of `size` bytes.
#[must_use]
pub fn file_padding(size: u64) -> &'static [u8] {
    &[0; BLOCK][..to_usize(padding(size))]
}

/// The end of an archive.
pub const END: &[u8] = &[0; 2 * BLOCK];

fn ustar(name: &str, size: u64, kind: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(257, "ustar\x0000");
    block[156] = kind;
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, data) in files {
            out.extend_from_slice(&file_header(name, data.len() as u64));
            out.extend_from_slice(data);
            out.extend_from_slice(file_padding(data.len() as u64));
        }
        out.extend_from_slice(END);
        out
    }

    fn read(bytes: &[u8], cut: usize) -> Result<Vec<(String, Vec<u8>)>, DomainError> {
        let mut decoder = Decoder::new();
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for mut input in bytes.chunks(cut) {
            loop {
                match decoder.next(&mut input)? {
                    Event::NeedMore => break,
                    Event::File { name, size } => files.push((name, Vec::with_capacity(size.min(1000) as usize))),
                    Event::Data(data) => files.last_mut().unwrap().1.extend_from_slice(data),
                    Event::End => {}
                }
            }
        }
        decoder.finish().map(|()| files)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_any_cut(data in proptest::collection::vec(any::<u8>(), 0..2000), cut in 1usize..700) {
            let bytes = archive(&[("header.json", &data), ("weights.safetensors", &data[..data.len() / 2])]);
            let files = read(&bytes, cut).unwrap();
            prop_assert_eq!(files[0].1.as_slice(), &data[..]);
            prop_assert_eq!(files[1].1.as_slice(), &data[..data.len() / 2]);
        }

        #[test]
        fn junk_is_refused_and_never_panics(bytes in proptest::collection::vec(any::<u8>(), 513..2000)) {
            prop_assert!(read(&bytes, 97).is_err());
        }
    }

    #[test]
    fn sizes_from_8_gib_travel_in_an_extended_header() {
        let size = 64u64 << 30;
        let header = file_header("weights.safetensors", size);
        let mut decoder = Decoder::new();
        let event = decoder.next(&mut header.as_slice()).unwrap();
        assert_eq!(event, Event::File { name: "weights.safetensors".into(), size });
    }

    #[test]
    fn members_other_than_plain_files_are_refused() {
        for (name, kind) in [("d", b'5'), ("l", b'2'), ("h", b'1'), ("c", b'3'), ("L", b'L'), ("g", b'g')] {
            assert!(read(&ustar(name, 0, kind), 512).is_err(), "{name}");
        }
        for name in ["../x", "a/b", "/etc/x", ".hidden", "./header.json", "a\\b", "sp ace", ""] {
            assert!(read(&archive(&[(name, b"x")]), 512).is_err(), "{name}");
        }
        let mut cut = archive(&[("header.json", b"0123456789")]);
        cut.truncate(515);
        assert!(read(&cut, 512).unwrap_err().message().contains("7 bytes"));
    }
}
