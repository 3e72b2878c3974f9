//! The fields of a JSON object, each taken once and by its type; what is left over is refused.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::value::Value;
use crate::core::error::{DomainError, ErrorCode};

/// An object that is being read field by field.
///
/// Errors carry the code that the kind of document has, and the field's path; never its value.
#[derive(Debug)]
pub struct Fields {
    code: ErrorCode,
    path: String,
    left: BTreeMap<String, Value>,
}

impl Fields {
    /// Begins to read an object; `path` is what errors call it.
    ///
    /// # Errors
    /// With `code` when the value is not an object.
    pub fn of(value: Value, path: impl Into<String>, code: ErrorCode) -> Result<Self, DomainError> {
        let path = path.into();
        match value {
            Value::Object(left) => Ok(Self { code, path, left }),
            other => Err(DomainError::new(code, format!("{path} must be an object and is {}", other.kind()))
                .field("field", path)),
        }
    }

    /// A refusal that names a field of this object.
    #[must_use]
    pub fn refuse(&self, name: &str, message: &str) -> DomainError {
        let field = format!("{}.{name}", self.path);
        DomainError::new(self.code, format!("{field} {message}")).field("field", field)
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> DomainError {
        self.refuse(name, &format!("must be {expected} and is {}", found.kind()))
    }

    /// A field of any type.
    ///
    /// # Errors
    /// When it is missing.
    pub fn take(&mut self, name: &str) -> Result<Value, DomainError> {
        self.left.remove(name).ok_or_else(|| self.refuse(name, "is missing"))
    }

    /// A field that may be absent or null.
    pub fn optional(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| *value != Value::Null)
    }

    /// Puts a field back, so that it can be taken by its type.
    pub fn put(&mut self, name: &str, value: Value) {
        self.left.insert(name.to_owned(), value);
    }

    /// True when the field is there and not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| *value != Value::Null)
    }

    /// Text.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn string(&mut self, name: &str) -> Result<String, DomainError> {
        match self.take(name)? {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// Text of at least one character and at most `most` bytes.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn name(&mut self, name: &str, most: usize) -> Result<String, DomainError> {
        let text = self.string(name)?;
        if text.is_empty() || text.len() > most {
            return Err(self.refuse(name, &format!("must have 1 to {most} bytes")));
        }
        Ok(text)
    }

    /// One of the hashes: 64 lowercase hexadecimal digits.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn digest<T: FromStr>(&mut self, name: &str) -> Result<T, DomainError> {
        let text = self.string(name)?;
        text.parse().map_err(|_| self.refuse(name, "must be 64 lowercase hexadecimal digits"))
    }

    /// One of the hashes, or nothing.
    ///
    /// # Errors
    /// When it is something else.
    pub fn optional_digest<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, DomainError> {
        if self.has(name) { self.digest(name).map(Some) } else { Ok(self.optional(name).and(None)) }
    }

    /// An integer from 0 to 2^63 - 1.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn count(&mut self, name: &str) -> Result<u64, DomainError> {
        let digits = self.integer(name)?;
        digits
            .parse::<u64>()
            .ok()
            .filter(|count| i64::try_from(*count).is_ok())
            .ok_or_else(|| self.refuse(name, "must be between 0 and 2^63 - 1"))
    }

    /// An integer of any size, as its digits.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn integer(&mut self, name: &str) -> Result<Box<str>, DomainError> {
        match self.take(name)? {
            Value::Integer(digits) => Ok(digits),
            other => Err(self.wrong(name, "an integer", &other)),
        }
    }

    /// A finite number.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn number(&mut self, name: &str) -> Result<f64, DomainError> {
        match self.take(name)? {
            Value::Float(number) => Ok(number),
            Value::Integer(digits) => digits
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .ok_or_else(|| self.refuse(name, "is beyond the range of a double")),
            other => Err(self.wrong(name, "a number", &other)),
        }
    }

    /// A boolean.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn flag(&mut self, name: &str) -> Result<bool, DomainError> {
        match self.take(name)? {
            Value::Bool(flag) => Ok(flag),
            other => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// An array.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn list(&mut self, name: &str) -> Result<Vec<Value>, DomainError> {
        match self.take(name)? {
            Value::Array(items) => Ok(items),
            other => Err(self.wrong(name, "an array", &other)),
        }
    }

    /// An array of texts.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn strings(&mut self, name: &str) -> Result<Vec<String>, DomainError> {
        self.list(name)?
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(self.wrong(name, "an array of strings", &other)),
            })
            .collect()
    }

    /// A nested object, read the same way.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn object(&mut self, name: &str) -> Result<Self, DomainError> {
        let value = self.take(name)?;
        Self::of(value, format!("{}.{name}", self.path), self.code)
    }

    /// An object whose names are data.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn map(&mut self, name: &str) -> Result<BTreeMap<String, Value>, DomainError> {
        self.object(name).map(|fields| fields.left)
    }

    /// An object from names that are data to hashes.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn digests<T: FromStr>(&mut self, name: &str) -> Result<BTreeMap<String, T>, DomainError> {
        self.map(name)?
            .into_iter()
            .map(|(key, value)| {
                let digest = match value {
                    Value::String(text) => text.parse().ok(),
                    _ => None,
                };
                let digest = digest
                    .ok_or_else(|| self.refuse(name, "must hold 64 lowercase hexadecimal digits for each name"))?;
                Ok((key, digest))
            })
            .collect()
    }

    /// Ends the reading; what has not been taken is unknown.
    ///
    /// # Errors
    /// When a field is left. Its name is told when it looks like a name.
    pub fn done(self) -> Result<(), DomainError> {
        let Some(name) = self.left.keys().next() else { return Ok(()) };
        let plain = name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let path = &self.path;
        Err(if plain {
            DomainError::new(self.code, format!("{path} has a field that is not known: {name}")).field("field", &**name)
        } else {
            DomainError::new(self.code, format!("{path} has a field that is not known"))
        })
    }
}
