//! Trees and proofs against Lensemble's own, and what must not pass for a proof.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::core::tests::{json as file, vectors};

fn leaves(list: &Value) -> Vec<LeafDigest> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().parse().unwrap()).collect()
}

/// What a reader of the JSON answers.
fn ask(root: &Value, proof: &Value, count: &Value) -> Result<bool, ErrorCode> {
    let body = json!({
        "root": root, "leaf": proof["leaf"], "siblings": proof["siblings"], "path_bits": proof["path_bits"],
        "episode_count": count,
    });
    ProofRequest::parse(body.to_string().as_bytes()).and_then(|request| request.verify()).map_err(|error| error.code())
}

#[test]
fn roots_and_proofs_are_lensembles() {
    let vector = &vectors("merkle-trees", 1)[0];
    let (mut trees, mut proofs) = (0, 0);
    for tree in file(&vector.path).as_array().unwrap() {
        let (id, leaves) = (&tree["id"], leaves(&tree["leaves"]));
        assert_eq!(root(&leaves).unwrap().to_string(), tree["root"].as_str().unwrap(), "{id}");
        for proof in tree["proofs"].as_array().unwrap() {
            let index = usize::try_from(proof["target_index"].as_u64().unwrap()).unwrap();
            let ours = prove(&leaves, index).unwrap();
            assert_eq!(json!(ours.siblings), proof["siblings"], "{id} {index}");
            assert_eq!(json!(ours.path_bits), proof["path_bits"], "{id} {index}");
            assert_eq!(ask(&tree["root"], proof, &json!(leaves.len())), Ok(true), "{id} {index}");
            proofs += 1;
        }
        trees += 1;
    }
    assert_eq!((trees, proofs), (16, 81));
}

#[test]
fn what_is_no_proof_is_told_from_what_proves_nothing() {
    let vector = &vectors("merkle-proofs", 1)[0];
    let mut rows = 0;
    for row in file(&vector.path).as_array().unwrap() {
        let expected = match row["expect"]["result"].as_bool() {
            Some(result) => Ok(result),
            None => Err(ErrorCode::parse(row["expect"]["code"].as_str().unwrap()).unwrap()),
        };
        assert_eq!(ask(&row["root"], &row["proof"], &row["episode_count"]), expected, "{}", row["id"]);
        rows += 1;
    }
    assert_eq!(rows, 12);
}

#[test]
fn where_there_is_no_root_there_is_none() {
    let vector = &vectors("merkle-root-negative", 1)[0];
    let mut rows = 0;
    for row in file(&vector.path).as_array().unwrap() {
        assert_eq!(row["expect"]["code"], "provenance_failed");
        let parsed: Result<Vec<LeafDigest>, _> =
            row["leaves"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().parse()).collect();
        // The type holds no leaf of another length, so that row ends here.
        if let Ok(leaves) = parsed {
            let error = match row["target_index"].as_u64() {
                Some(index) => prove(&leaves, usize::try_from(index).unwrap()).unwrap_err(),
                None => root(&leaves).unwrap_err(),
            };
            assert_eq!(error.code(), ErrorCode::ProvenanceFailed, "{}", row["id"]);
        } else {
            assert_eq!(row["id"], "short-leaf");
        }
        rows += 1;
    }
    assert_eq!(rows, 3);
}

#[test]
fn episodes_become_leaves() {
    let vector = &vectors("episodes", 1)[0];
    let mut rows = 0;
    for row in file(&vector.path).as_array().unwrap() {
        let hex = row["canonical_bytes_hex"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let episode = episode(&bytes);
        assert_eq!(episode.to_string(), row["episode_digest"].as_str().unwrap());
        assert_eq!(leaf(&episode).to_string(), row["leaf"].as_str().unwrap());
        rows += 1;
    }
    assert_eq!(rows, 7);
}

#[test]
fn a_commitments_root_is_that_of_its_leaves() {
    for vector in vectors("commitment", 3) {
        let root = root(&leaves(&vector.entry["leaves"])).unwrap();
        assert_eq!(root.to_string(), vector.entry["expect"]["merkle_root"].as_str().unwrap(), "{}", vector.id);
    }
}

#[test]
fn the_published_roots_of_single_bytes() {
    for (count, expected) in [
        (1, "b60c402439b2355dc68b83aadc868b50aa976ad5bfd5e2daf6b65c9d27b1ac87"),
        (2, "9b18ca77332fc477caac606dd29f7b584b46ce6d1224c3b82b6800fed55464bb"),
        (3, "e2ed9258df10c3a0b6ffcc7bec26c2a1f7fa63c2ba1c8ec9c8efe042f997bb2c"),
        (5, "35830ff1d938c25082ff1d32924e0ca848562fa9f7d6faaf7b3ac5f63b003fc4"),
    ] {
        let leaves: Vec<_> =
            (0..count).map(|byte: u8| leaf(&EpisodeDigest::from_bytes(Sha256::digest(&[byte])))).collect();
        assert_eq!(root(&leaves).unwrap().to_string(), expected);
    }
}

#[test]
fn requests_are_read_strictly() {
    let hash = "0".repeat(64);
    let good = json!({"root": hash, "episode": hash, "siblings": [], "path_bits": []});
    assert!(ProofRequest::parse(good.to_string().as_bytes()).is_ok());
    let levels = |count: usize| (json!(vec![&hash; count]), json!(vec![true; count]));
    let (deepest, too_deep) = (levels(64), levels(65));
    let cases = [
        (json!({"siblings": deepest.0, "path_bits": deepest.1}), true),
        (json!({"siblings": too_deep.0, "path_bits": too_deep.1}), false),
        (json!({"leaf": hash, "episode_count": 1}), false),
        (json!({"episode": null, "leaf": hash}), false),
        (json!({"episode": null, "leaf": hash, "episode_count": 1}), true),
        (json!({"episode": null}), false),
        (json!({"episode_count": 0}), false),
        (json!({"episode_count": 1.0}), false),
        (json!({"episode_count": null}), true),
        (json!({"siblings": [7]}), false),
        (json!({"siblings": [hash], "path_bits": [1]}), false),
        (json!({"root": hash.replace('0', "A")}), false),
        (json!({"more": 1}), false),
    ];
    for (change, fine) in cases {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let read = ProofRequest::parse(body.to_string().as_bytes());
        assert_eq!(read.is_ok(), fine, "{change}");
        assert!(read.is_ok() || read.unwrap_err().code() == ErrorCode::MerkleVerifyFailed);
    }
    assert!(ProofRequest::parse(b"[]").is_err());
}

proptest! {
    #[test]
    fn every_leaf_has_one_path_and_no_inner_node_has_one(count in 1u8..40) {
        let episodes: Vec<_> = (0..count).map(|byte| episode(&[byte])).collect();
        let leaves: Vec<_> = episodes.iter().map(leaf).collect();
        let root = root(&leaves).unwrap();
        let episode_count = u64::from(count);
        let mut places = Vec::new();
        for (index, episode) in episodes.iter().enumerate() {
            let proof = prove(&leaves, index).unwrap();
            places.push(position(&proof.path_bits, episode_count).unwrap());
            prop_assert!(proof.verify(&Claim::Episode(*episode), &root).unwrap());
            let claim = Claim::Leaf { leaf: leaves[index], episode_count };
            prop_assert!(proof.verify(&claim, &root).unwrap());
            // Each node above the leaf, with what is left of the path.
            let mut inner = *leaves[index].as_bytes();
            for level in 0..proof.siblings.len() {
                let sibling = proof.siblings[level].as_bytes();
                inner = if proof.path_bits[level] { node(sibling, &inner) } else { node(&inner, sibling) };
                let rest = Proof {
                    siblings: proof.siblings[level + 1..].to_vec(),
                    path_bits: proof.path_bits[level + 1..].to_vec(),
                };
                prop_assert_eq!(position(&rest.path_bits, episode_count), None);
                let claim = Claim::Episode(EpisodeDigest::from_bytes(inner));
                prop_assert!(!rest.verify(&claim, &root).unwrap());
            }
        }
        places.sort_unstable();
        prop_assert_eq!(places, (0..episode_count).collect::<Vec<_>>());
    }

    #[test]
    fn no_path_is_a_surprise(bits in proptest::collection::vec(any::<bool>(), 0..70), count in any::<u64>()) {
        if let Some(at) = position(&bits, count) {
            prop_assert!(at < count);
        }
    }
}
