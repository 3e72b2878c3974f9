//! Properties of the hashes, on artifacts made from nothing and hashed a second time in the plainest way.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use cairn::client::directory;
use cairn::client::progress::Silent;
use cairn::core::checkpoint::Header;
use cairn::core::intake::{FileIntake, Intake, Verified};
use cairn::core::limits::Limits;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use safetensors::tensor::Dtype;
use sha2::{Digest, Sha256};

use crate::artifact::{Artifact, Tensor, build, codes, hex};

fn tensor() -> impl Strategy<Value = Tensor> {
    let dtype = prop_oneof![Just(Dtype::F32), Just(Dtype::F16), Just(Dtype::BF16)];
    (dtype, vec(0usize..4, 0..4), any::<u32>()).prop_flat_map(|(dtype, shape, place)| {
        let len = shape.iter().product::<usize>() * codes(dtype).2;
        vec(any::<u8>(), len).prop_map(move |data| Tensor { dtype, shape: shape.clone(), data, place })
    })
}

fn artifact() -> impl Strategy<Value = Artifact> {
    let name = "(encoder|predictor)\\.[a-z0-9._éＡ]{1,6}";
    (btree_map(name, tensor(), 1..7), 1usize..4, 0u64..100, any::<bool>())
        .prop_map(|(tensors, shards, round, old)| build(&tensors, shards, round, if old { 1 } else { 2 }))
}

/// Feeds the files through the intake: `order` picks the file of each step, `cuts` the bytes of it.
fn take_in(artifact: &Artifact, order: &[usize], cuts: &[usize]) -> Verified {
    let header = Arc::new(Header::parse(artifact.header.as_bytes(), &Limits::DEFAULT).unwrap());
    let mut intake = Intake::new(Arc::clone(&header));
    let mut files: Vec<FileIntake> = (0..artifact.files.len())
        .map(|index| FileIntake::new(&header, index, Some(artifact.files[index].1.len() as u64), &Limits::DEFAULT))
        .collect();
    let mut step = 0;
    while let Some(file) = {
        let open: Vec<usize> =
            (0..files.len()).filter(|index| files[*index].seen() < artifact.files[*index].1.len() as u64).collect();
        (!open.is_empty()).then(|| open[order[step % order.len()] % open.len()])
    } {
        let offset = files[file].seen();
        let rest = &artifact.files[file].1[offset as usize..];
        let chunk = &rest[..rest.len().min(cuts[step % cuts.len()])];
        if files[file].check(chunk).unwrap() {
            let container = Arc::clone(files[file].container().unwrap());
            intake.place(file, &container).unwrap();
        }
        intake.absorb(file, offset, chunk, Some(&mut files[file]));
        step += 1;
    }
    while let Some(extent) = intake.pending() {
        let len = (extent.len as usize).min(cuts[step % cuts.len()]);
        let start = extent.start as usize;
        intake.absorb(extent.file, extent.start, &artifact.files[extent.file].1[start..start + len], None);
        step += 1;
    }
    intake.finish(&files.iter().collect::<Vec<_>>(), Some(&artifact.content_hash)).unwrap()
}

fn check(artifact: &Artifact, verified: &Verified) {
    assert_eq!(verified.content_hash().to_string(), artifact.content_hash);
    let groups: BTreeMap<_, _> =
        verified.groups().iter().map(|group| (group.name.to_owned(), group.digest.to_string())).collect();
    assert_eq!(groups, artifact.groups);
    let files: Vec<_> = verified.files().iter().map(|file| (file.name.clone(), file.digest.to_string())).collect();
    let expected: Vec<_> =
        artifact.files.iter().map(|(name, bytes)| (name.clone(), hex(&Sha256::digest(bytes)))).collect();
    assert_eq!(files, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_and_cuts_do_not_matter(
        artifact in artifact(),
        order in vec(any::<usize>(), 1..20),
        cuts in vec(1usize..200, 1..20),
    ) {
        check(&artifact, &take_in(&artifact, &order, &cuts));
        let directory = artifact.write();
        check(&artifact, &directory::verify(directory.path(), Some(&artifact.content_hash), &Silent).unwrap());
    }

    #[test]
    fn a_flipped_bit_of_the_weights_is_found(artifact in artifact(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut artifact = artifact;
        let total: usize = artifact.files.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut at = at.index(total);
        for (_, bytes) in &mut artifact.files {
            if at < bytes.len() {
                bytes[at] ^= 1u8 << bit;
                break;
            }
            at -= bytes.len();
        }
        let directory = artifact.write();
        let error = directory::verify(directory.path(), None, &Silent).unwrap_err();
        prop_assert!(error.is_verdict());
    }

    #[test]
    fn a_flipped_bit_of_what_the_header_says_is_found(
        artifact in artifact(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let at = at.index(artifact.header.len());
        prop_assume!(!artifact.free.iter().any(|free| free.contains(&at)));
        let directory = artifact.write();
        let mut text = artifact.header.into_bytes();
        text[at] ^= 1u8 << bit;
        fs::write(directory.path().join("header.json"), text).unwrap();
        let error = directory::verify(directory.path(), None, &Silent).unwrap_err();
        prop_assert!(error.is_verdict());
    }
}
