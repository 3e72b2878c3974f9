//! Names of weight files, and `weights.index.json`.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::error::DomainError;
use super::json::{Object, explain};
use super::limits::Limits;

/// The only weight file of an unsharded checkpoint.
pub const SINGLE: &str = "weights.safetensors";

/// The optional index beside shards.
pub const INDEX: &str = "weights.index.json";

/// The name of shard `index` of `count`: zero-based, five digits.
#[must_use]
pub fn shard_name(index: usize, count: usize) -> String {
    format!("weights-{index:05}-of-{count:05}.safetensors")
}

/// The name of the weight file at `position` of `count`; behind the last comes the index.
#[must_use]
pub fn file_name(position: usize, count: usize) -> String {
    match (position, count) {
        (0, 1) => SINGLE.to_owned(),
        _ if position < count => shard_name(position, count),
        _ => INDEX.to_owned(),
    }
}

/// Accepts exactly the names that follow from the count of files, in order; so no name can reach another directory.
///
/// # Errors
/// `artifact_invalid`.
pub fn check_names(names: &[String], limits: &Limits) -> Result<(), DomainError> {
    let invalid = |message: &str| {
        DomainError::invalid(format!("header.json: weight_files {message}"))
            .field("field", "weight_files")
            .remedy(format!("List {SINGLE} alone, or weights-00000-of-0000N.safetensors to the last, in order."))
    };
    match names {
        [] => Err(invalid("is empty")),
        [single] if single == SINGLE => Ok(()),
        [_] => Err(invalid("has one file with another name than weights.safetensors")),
        many if many.len() > limits.shards => Err(invalid("has too many files").field("limit", limits.shards)),
        many if many.iter().enumerate().all(|(index, name)| *name == shard_name(index, many.len())) => Ok(()),
        _ => Err(invalid("is not the complete, ordered list of shards")),
    }
}

/// The pairs of an index's `weight_map`, kept in file order so that repeated names can be seen.
struct WeightMap(Vec<(Box<str>, Box<str>)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of file names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<Box<str>, Box<str>>()? {
                    pairs.push(pair);
                }
                pairs.sort_unstable();
                if pairs.windows(2).any(|two| two[0].0 == two[1].0) {
                    return Err(de::Error::custom("a tensor stands in weight_map twice"));
                }
                Ok(WeightMap(pairs))
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    #[serde(default)]
    total_size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    #[serde(default)]
    metadata: Option<Object<Metadata>>,
    weight_map: WeightMap,
}

/// Compares an index with what the shards hold; `stored` is (tensor, file, bytes) ascending by tensor name.
///
/// # Errors
/// `checkpoint_integrity`: shards are judged by what they hold, never by the index, so an index that differs is wrong.
pub fn check_index<'a>(text: &[u8], stored: impl Iterator<Item = (&'a str, &'a str, u64)>) -> Result<(), DomainError> {
    let refuse = |message: String| {
        DomainError::integrity(format!("{INDEX} {message}"))
            .field("file", INDEX)
            .remedy("Leave the index out, or write it again from the shards.")
    };
    let Object(index): Object<Index> =
        serde_json::from_slice(text).map_err(|error| refuse(format!("is not valid: {}", explain(&error))))?;
    let mut listed = index.weight_map.0.iter();
    let mut total = 0u64;
    for (tensor, file, bytes) in stored {
        total += bytes;
        match listed.next() {
            Some((name, place)) if **name == *tensor && **place == *file => {}
            _ => {
                return Err(refuse("does not list each stored tensor with the file that holds it".to_owned())
                    .field("tensor", tensor));
            }
        }
    }
    if listed.next().is_some() {
        return Err(refuse("lists a tensor that no file holds".to_owned()));
    }
    match index.metadata.and_then(|Object(metadata)| metadata.total_size) {
        Some(told) if told != total => Err(refuse("has another total_size than the tensors".to_owned())
            .field("expected", total)
            .field("got", told)),
        _ => Ok(()),
    }
}
