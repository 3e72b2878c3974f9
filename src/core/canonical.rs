//! The byte sequences behind H1 and H2, as recipes over a header's manifest.
//!
//! H1, the canonical hash of a checkpoint (all integers little-endian; measured against Lensemble's code):
//!
//! ```text
//! "lensemble/artifact/v1" 00 "tensors" 00
//! for each tensor ascending by name bytes:
//!     u32 name length, name, u8 token length, dtype token, u32 rank, u64 per dimension, element bytes
//! 00 "struct" 00
//! u32 frame length, {"param_groups":[…],"parent_hash":"…","round_index":N,"schema_version":N,"wmcp_version":"…"}
//! ```
//!
//! H2, the hash of one parameter group: the group's tensors under bare names (prefix and dot removed), serialised as
//! the safetensors writer does it: by element type, then name; compact JSON padded with blanks to a multiple of 8.
//!
//! Golden values: `tests/golden`, made by Lensemble's own library.

use super::checkpoint::{Header, SHARED_GROUPS};
use super::json::write_ascii_string;
use super::recipe::Recipe;

/// What is hashed into H1.
#[must_use]
pub fn content_recipe(header: &Header) -> Recipe {
    let mut recipe = Recipe::default();
    recipe.literal(b"lensemble/artifact/v1\0tensors\0");
    let mut frame = Vec::new();
    for (index, entry) in header.manifest.iter().enumerate() {
        frame.clear();
        frame.extend_from_slice(&length(entry.name.len()));
        frame.extend_from_slice(entry.name.as_bytes());
        let token = entry.dtype.token();
        frame.push(token_length(token));
        frame.extend_from_slice(token.as_bytes());
        frame.extend_from_slice(&length(entry.shape.len()));
        for dim in &entry.shape {
            frame.extend_from_slice(&dim.to_le_bytes());
        }
        recipe.literal(&frame);
        recipe.tensor(index);
    }
    recipe.literal(b"\0struct\0");
    let frame = struct_frame(header);
    recipe.literal(&length(frame.len()));
    recipe.literal(&frame);
    recipe
}

/// The canonical hash writes lengths as u32; names, ranks and frames are limited far below that.
fn length(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes()
}

/// It writes the length of a dtype token as one byte; the longest token has eight.
fn token_length(token: &str) -> u8 {
    u8::try_from(token.len()).unwrap_or(u8::MAX)
}

/// The structural frame: compact ASCII JSON with sorted keys, computed with the schema version in the file.
#[must_use]
pub fn struct_frame(header: &Header) -> Vec<u8> {
    let mut groups: Vec<&str> = header.param_groups.iter().map(String::as_str).collect();
    groups.sort_unstable();
    let mut out = b"{\"param_groups\":[".to_vec();
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_ascii_string(&mut out, group);
    }
    out.extend_from_slice(b"],\"parent_hash\":\"");
    if let Some(parent) = header.parent_hash {
        out.extend_from_slice(parent.to_string().as_bytes());
    }
    out.extend_from_slice(
        format!(
            "\",\"round_index\":{},\"schema_version\":{},\"wmcp_version\":",
            header.round_index, header.schema_version
        )
        .as_bytes(),
    );
    write_ascii_string(&mut out, &header.wmcp_version);
    out.push(b'}');
    out
}

/// One parameter group as it is served and hashed into H2.
#[derive(Clone, Debug)]
pub struct Group {
    /// `encoder` or `predictor`.
    pub name: &'static str,
    /// Tensors in it.
    pub tensors: usize,
    /// Bytes of the serialised group.
    pub len: u64,
    /// The serialised group.
    pub recipe: Recipe,
}

/// The groups that have at least one tensor under a bare name, in the order of [`SHARED_GROUPS`].
///
/// A tensor that is called just like its group has no bare name; the reference library leaves it out, and so do we.
#[must_use]
pub fn groups(header: &Header) -> Vec<Group> {
    SHARED_GROUPS.iter().filter_map(|name| group(header, name)).collect()
}

fn group(header: &Header, name: &'static str) -> Option<Group> {
    let prefix = format!("{name}.");
    let mut members: Vec<(usize, &str)> = header
        .manifest
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, entry.name.strip_prefix(&prefix)?)))
        .collect();
    if members.is_empty() {
        return None;
    }
    // The manifest is in name order and the prefix is common, so a stable sort by element type is the writer's order.
    members.sort_by_key(|(index, _)| header.manifest[*index].dtype);
    let mut json = vec![b'{'];
    let mut offset = 0;
    for (position, (index, bare)) in members.iter().enumerate() {
        let entry = &header.manifest[*index];
        if position > 0 {
            json.push(b',');
        }
        write_raw_string(&mut json, bare);
        json.extend_from_slice(format!(":{{\"dtype\":\"{}\",\"shape\":[", entry.dtype.code()).as_bytes());
        for (position, dim) in entry.shape.iter().enumerate() {
            json.extend_from_slice(if position > 0 { format!(",{dim}") } else { dim.to_string() }.as_bytes());
        }
        let end = offset + entry.len;
        json.extend_from_slice(format!("],\"data_offsets\":[{offset},{end}]}}").as_bytes());
        offset = end;
    }
    json.push(b'}');
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut recipe = Recipe::default();
    recipe.literal(&(json.len() as u64).to_le_bytes());
    recipe.literal(&json);
    for (index, _) in &members {
        recipe.tensor(*index);
    }
    Some(Group { name, tensors: members.len(), len: 8 + json.len() as u64 + offset, recipe })
}

/// Writes a JSON string as `serde_json` does: non-ASCII and U+007F raw, short escapes, other controls as `\u00xx`.
fn write_raw_string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let quoted = serde_json::to_string(text).unwrap_or_default();
    out.extend_from_slice(quoted.as_bytes());
}
