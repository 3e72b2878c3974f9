//! JSON as Python writes it when Lensemble hashes it: sorted names, no blanks, Python's spelling of numbers.

use super::value::Value;

/// How text beyond ASCII is spelled. Lensemble has both, each for its own documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Escaped: checkpoint headers and configurations.
    Ascii,
    /// As it is: ledger records.
    Unicode,
}

impl Value {
    /// The canonical bytes.
    #[must_use]
    pub fn canonical(&self, dialect: Dialect) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(dialect, &mut out);
        out
    }

    fn write(&self, dialect: Dialect, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Integer(digits) => out.extend_from_slice(digits.as_bytes()),
            Self::Float(number) => out.extend_from_slice(python_float(*number).as_bytes()),
            Self::String(text) => write_string(out, text, dialect),
            Self::Array(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write(dialect, out);
                }
                out.push(b']');
            }
            Self::Object(entries) => {
                out.push(b'{');
                for (index, (name, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(out, name, dialect);
                    out.push(b':');
                    value.write(dialect, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Writes `text` as a JSON string in pure ASCII, as Python's `json.dumps` does: lowercase `\uxxxx`, surrogate pairs
/// above U+FFFF, and no escape for `/`.
pub fn write_ascii_string(out: &mut Vec<u8>, text: &str) {
    write_string(out, text, Dialect::Ascii);
}

/// Writes `text` as a JSON string, as Python's `json.dumps` does with or without `ensure_ascii`.
pub fn write_string(out: &mut Vec<u8>, text: &str, dialect: Dialect) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.push(c as u8),
            '\u{7f}'.. if dialect == Dialect::Unicode => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    out.push(b'"');
}

/// A finite double as Python's `repr` spells it: the shortest digits that read back as the same double, with an
/// exponent of at least two digits when it is below -4 or above 15, and always with a point or an exponent.
#[must_use]
pub fn python_float(number: f64) -> String {
    // Rust's exponent form has the same shortest digits: d.ddde-x.
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let text = number.to_string();
        return if text.contains('.') { text } else { format!("{text}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_strings_are_pythons() {
        let mut out = Vec::new();
        write_ascii_string(&mut out, "wmcp-é/😀\u{7f}\u{1}\"\\");
        assert_eq!(String::from_utf8(out).unwrap(), r#""wmcp-\u00e9/\ud83d\ude00\u007f\u0001\"\\""#);
    }

    #[test]
    fn floats_are_pythons() {
        for (number, text) in [
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (123_456_789.125, "123456789.125"),
        ] {
            assert_eq!(python_float(number), text);
        }
    }
}
