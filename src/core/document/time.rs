//! Times in documents.

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;

use crate::core::error::DomainError;
use crate::core::json::Fields;

/// Takes a field that must be an RFC 3339 time with an offset from UTC; a time without one means another moment in
/// each place.
pub(super) fn time(fields: &mut Fields, name: &str) -> Result<String, DomainError> {
    let text = fields.string(name)?;
    if text.as_bytes().get(10) == Some(&b'T') && OffsetDateTime::parse(&text, &Rfc3339).is_ok() {
        return Ok(text);
    }
    Err(fields.refuse(name, "must be an RFC 3339 time with an offset from UTC"))
}
