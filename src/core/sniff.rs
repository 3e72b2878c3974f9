//! Names the disguise of bytes that are not safetensors, from their first bytes alone; nothing is ever opened.

/// What the first bytes of a file look like, when they are a well-known other format.
///
/// Reads at most the first 16 bytes of `start`; fewer bytes give fewer answers, never a wrong one.
#[must_use]
pub fn disguise(start: &[u8]) -> Option<&'static str> {
    const SIGNATURES: &[(&[u8], &str)] = &[
        (b"PK\x03\x04", "a zip archive (torch.save or .npz)"),
        (b"PK\x05\x06", "an empty zip archive"),
        (b"\x93NUMPY", "a numpy .npy file"),
        (b"version ", "a git-LFS pointer"),
        (b"GGUF", "a GGUF file"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x1f\x8b", "gzip-compressed data"),
        (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
        (b"BZh", "bzip2-compressed data"),
        (b"\xfd7zXZ\x00", "xz-compressed data"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"Rar!", "a RAR archive"),
        (b"%PDF", "a PDF document"),
        (b"<!DOC", "an HTML page"),
        (b"<!doc", "an HTML page"),
        (b"<html", "an HTML page"),
        (b"<HTML", "an HTML page"),
        (b"<?xml", "an XML document (often a storage error page)"),
        (b"\x7fELF", "an executable"),
    ];
    let named = SIGNATURES.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, name)| *name);
    named.or(match start {
        // PROTO 2..5 of Python's pickle; protocol 0 and 1 have no signature of their own.
        [0x80, 2..=5, ..] => Some("a Python pickle (never opened here)"),
        [b'{' | b'[', b'"' | b'\n' | b'\r' | b' ' | b'{', ..] => Some("bare JSON text without the 8-byte length"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::disguise;

    #[test]
    fn disguises_are_named() {
        assert_eq!(disguise(b"\x80\x02}q\x00"), Some("a Python pickle (never opened here)"));
        assert_eq!(disguise(b"version https://git-lfs"), Some("a git-LFS pointer"));
        assert_eq!(disguise(b"PK\x03\x04\x00\x00"), Some("a zip archive (torch.save or .npz)"));
        assert_eq!(disguise(b""), None);
        assert_eq!(disguise(b"\x78\x00\x00\x00\x00\x00\x00\x00{"), None);
    }
}
