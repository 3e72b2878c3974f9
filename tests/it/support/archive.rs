//! Tar archives as other programs write them, and as they should not be written.

pub const BLOCK: usize = 512;

/// One member's header block, field by field.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    pub name: &'a [u8],
    pub kind: u8,
    /// The size that the header tells.
    pub size: u64,
    pub link: &'a [u8],
    pub prefix: &'a [u8],
    /// `ustar\0` and version, or GNU's spelling of them.
    pub magic: &'a [u8; 8],
}

impl<'a> Member<'a> {
    pub fn file(name: &'a str, size: usize) -> Self {
        Self { name: name.as_bytes(), kind: b'0', size: size as u64, link: b"", prefix: b"", magic: b"ustar\x0000" }
    }

    pub fn kind(mut self, kind: u8) -> Self {
        self.kind = kind;
        self
    }

    /// The header block with a right checksum.
    pub fn block(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, self.name);
        put(100, b"0000644\0");
        put(108, b"0001750\0");
        put(116, b"0001750\0");
        if self.size < 1 << 33 {
            put(124, format!("{:011o}\0", self.size).as_bytes());
        } else {
            put(124, &[0x80, 0, 0, 0]);
            put(128, &self.size.to_be_bytes());
        }
        put(136, b"14774612345\0");
        put(156, &[self.kind]);
        put(157, self.link);
        put(257, self.magic);
        put(265, b"root");
        put(297, b"root");
        put(345, self.prefix);
        checksum(&mut block);
        block
    }
}

/// Writes the checksum of a block.
pub fn checksum(block: &mut [u8]) {
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A member with its data and padding.
pub fn member(header: &Member<'_>, data: &[u8]) -> Vec<u8> {
    let mut out = header.block();
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

/// A pax extended header with these records.
pub fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in records {
        let body = format!(" {key}={value}\n");
        let mut length = body.len() + 1;
        while format!("{length}{body}").len() != length {
            length = format!("{length}{body}").len();
        }
        text += &format!("{length}{body}");
    }
    member(&Member::file("pax", text.len()).kind(b'x'), text.as_bytes())
}

/// An archive of plain files.
pub fn archive<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, data) in files {
        out.extend_from_slice(&member(&Member::file(name, data.len()), data));
    }
    end(out)
}

/// Adds the end of an archive.
pub fn end(mut out: Vec<u8>) -> Vec<u8> {
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}
