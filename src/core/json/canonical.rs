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
    let text = python_digits(number);
    let (sign, text) = text.strip_prefix('-').map_or(("", &*text), |text| ("-", text));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{direction}{:02}", exponent.abs());
    }
    let digits = mantissa.replace('.', "");
    let Ok(point) = usize::try_from(exponent) else {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    match digits.split_at_checked(point + 1) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits:0<width$}.0", width = point + 1),
    }
}

/// The digits of a double in the form `d.ddde-x`.
///
/// Rust and Python agree on how many digits the shortest have. Where the double lies halfway between two such numbers,
/// Rust takes the one further from zero and Python the even one, which is what a number of digits asked for gives. Next
/// to a power of two the nearest may read back as another double; then there is no such choice.
fn python_digits(number: f64) -> String {
    let shortest = format!("{number:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let even = format!("{number:.*e}", digits - 1);
    let same = even.parse::<f64>().is_ok_and(|again| again.to_bits() == number.to_bits());
    if same { even } else { shortest }
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
            // Halfway between two shortest spellings: the even one.
            (3_814_851_303_564_777.0 / 4.0, "953712825891194.2"),
            // A power of two, where the nearest of 16 digits is another double.
            (9_007_199_254_740_992.0, "9007199254740992.0"),
            (2f64.powi(-44), "5.684341886080802e-14"),
        ] {
            assert_eq!(python_float(number), text);
        }
    }
}
