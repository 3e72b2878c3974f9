//! The seeds of a run, derived from one root (Lensemble's `blake3-v1`).

/// The seed that a root gives for a label: the first eight bytes of BLAKE3 over `root:label`, big-endian, the top bit
/// cleared.
///
/// The root is given in decimal digits, which are what is hashed: it has no bounds and may be negative.
#[must_use]
pub fn derive(root_seed: &str, label: &str) -> u64 {
    let mut first = [0; 8];
    blake3::Hasher::new()
        .update(root_seed.as_bytes())
        .update(b":")
        .update(label.as_bytes())
        .finalize_xof()
        .fill(&mut first);
    u64::from_be_bytes(first) & (u64::MAX >> 1)
}

/// The seed of a round's sketch, the same for all participants.
#[must_use]
pub fn sketch(root_seed: &str, round: u64) -> u64 {
    derive(root_seed, &format!("sketch:{round}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::{json, vectors};
    use serde_json::Value;

    /// The rows of the only vector of a kind.
    fn rows(kind: &str) -> Vec<Value> {
        json(&vectors(kind, 1)[0].path).as_array().unwrap().clone()
    }

    fn text<'a>(row: &'a Value, name: &str) -> &'a str {
        row[name].as_str().unwrap()
    }

    #[test]
    fn labels_give_lensembles_seeds() {
        let rows = rows("seed");
        assert_eq!(rows.len(), 144);
        for row in rows {
            let seed = derive(text(&row, "root_seed"), text(&row, "label"));
            assert_eq!(row["value"], seed, "{row}");
        }
    }

    #[test]
    fn rounds_give_lensembles_seeds() {
        let rows = rows("seed-sketch");
        assert_eq!(rows.len(), 99);
        for row in rows {
            let (root, index) = (text(&row, "root_seed"), text(&row, "round_index"));
            // The library takes any number for a round; -1, which is none here, has its label all the same.
            let seed = if index == "-1" { derive(root, "sketch:-1") } else { sketch(root, index.parse().unwrap()) };
            assert_eq!(row["value"], seed, "{row}");
        }
    }
}
