//! The `Range` header of one byte range (RFC 9110, section 14).

/// What a `Range` header asks for, of a representation of a known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Everything: no range, several ranges, another unit or a syntax that has to be ignored.
    Whole,
    /// These bytes; never empty.
    Part {
        /// Offset of the first byte.
        start: u64,
        /// Bytes.
        len: u64,
    },
    /// A range that does not touch the representation.
    Unsatisfiable,
}

/// Reads a `Range` header against a representation of `size` bytes.
///
/// Several ranges are answered by the whole representation, which RFC 9110 allows.
#[must_use]
pub fn wanted(header: &str, size: u64) -> Wanted {
    let Some((unit, set)) = header.split_once('=') else { return Wanted::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Wanted::Whole;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Wanted::Whole };
    match (number(first), number(last)) {
        (Some(None), Some(Some(0))) => Wanted::Unsatisfiable,
        (Some(None), Some(Some(suffix))) if size > 0 => {
            let len = suffix.min(size);
            Wanted::Part { start: size - len, len }
        }
        (Some(Some(start)), Some(last)) => {
            if last.is_some_and(|last| last < start) {
                Wanted::Whole
            } else if start >= size {
                Wanted::Unsatisfiable
            } else {
                let end = last.map_or(size, |last| last.saturating_add(1).min(size));
                Wanted::Part { start, len: end - start }
            }
        }
        (Some(None), Some(Some(_))) => Wanted::Unsatisfiable,
        _ => Wanted::Whole,
    }
}

#[expect(clippy::option_option, reason = "three answers, told apart by one match")]
/// `None`: not a number; `Some(None)`: nothing there. A number too large for 64 bits is simply very large.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_rfc_says() {
        let part = |start, len| Wanted::Part { start, len };
        for (header, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-", part(0, 10)),
            ("bytes=5-100", part(5, 5)),
            ("bytes=9-9", part(9, 1)),
            ("bytes=-3", part(7, 3)),
            ("bytes=-30", part(0, 10)),
            ("BYTES=2-3", part(2, 2)),
            ("bytes=10-", Wanted::Unsatisfiable),
            ("bytes=10-12", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=99999999999999999999999-", Wanted::Unsatisfiable),
            ("bytes=0-99999999999999999999999", part(0, 10)),
            ("bytes=3-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
            ("nonsense", Wanted::Whole),
        ] {
            assert_eq!(wanted(header, 10), expected, "{header}");
        }
        assert_eq!(wanted("bytes=0-", 0), Wanted::Unsatisfiable);
        assert_eq!(wanted("bytes=-5", 0), Wanted::Unsatisfiable);
    }
}
