//! The digests of this module against the `sha2` crate.

use std::iter;

use proptest::collection::vec;
use proptest::prelude::*;
use sha2::Digest as _;

use super::kernel::Kernel;
use super::lanes::update_lanes_with;
use super::{BLOCK, INITIAL, Lane, MAX_BYTES, Sha256, update_lanes};

/// What this machine has, and what every machine has.
fn kernels() -> Vec<Kernel> {
    Kernel::accelerated().into_iter().chain([Kernel::Portable]).collect()
}

/// Every kernel with every number of lanes side by side.
fn ways() -> impl Iterator<Item = (Kernel, usize)> {
    kernels().into_iter().flat_map(|kernel| (1..=3).map(move |width| (kernel, width)))
}

fn reference(data: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(data).into()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Bytes in which a block out of place shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i ^ (i >> 8) ^ (i >> 16)).to_le_bytes()[0]).collect()
}

/// Cuts `data` at the given lengths; what is left over is the last slice.
fn cut<'a>(mut data: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut slices = Vec::new();
    for &length in lengths {
        let (slice, rest) = data.split_at(length.min(data.len()));
        slices.push(slice);
        data = rest;
    }
    slices.push(data);
    slices
}

#[test]
fn published_vectors() {
    let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    let four_blocks: &[u8] = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno\
        ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    let million = vec![b'a'; 1_000_000];
    let vectors: [(&[u8], &str); 5] = [
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (two_blocks, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
        (four_blocks, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"),
        (&million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    ];
    for kernel in kernels() {
        for (message, digest) in vectors {
            let mut hasher = Sha256::new();
            hasher.update_with(kernel, message);
            assert_eq!(to_hex(&hasher.finalize_with(kernel)), digest);
        }
    }
    for (message, digest) in vectors {
        assert_eq!(to_hex(&Sha256::digest(message)), digest);
    }
}

/// The padding takes one block or two, and every length around a border has to come out right.
#[test]
fn every_short_length() {
    let data = pattern(4 * BLOCK);
    for kernel in kernels() {
        for length in 0..data.len() {
            let mut hasher = Sha256::default();
            hasher.update_with(kernel, &data[..length]);
            assert_eq!(hasher.len(), length as u64);
            assert_eq!(hasher.is_empty(), length == 0);
            assert_eq!(hasher.finalize_with(kernel), reference(&data[..length]));
        }
    }
}

#[test]
fn no_lanes_and_lanes_without_input() {
    update_lanes(&mut []);
    let mut hashers = [const { Sha256::new() }; 5];
    let inputs: [&[&[u8]]; 5] = [&[], &[b""], &[b"", b"", b""], &[b"", b"a", b"", b"bc"], &[]];
    let mut lanes: Vec<Lane<'_>> =
        hashers.iter_mut().zip(inputs).map(|(hasher, input)| Lane { hasher, input }).collect();
    update_lanes(&mut lanes);
    assert_eq!(hashers.map(Sha256::finalize), [b"", b"", b"", b"abc".as_slice(), b""].map(reference));
}

/// Three streams of the same bytes behind different frames, the case this module is for.
#[test]
fn same_bytes_different_frames() {
    let body = pattern(100_003);
    let frames: [&[u8]; 3] = [b"", &[1; 24], &[2; 37]];
    for (kernel, width) in ways() {
        let mut hashers = [const { Sha256::new() }; 3];
        let inputs = frames.map(|frame| [frame, &body, frame, &body[..777]]);
        let mut lanes: Vec<Lane<'_>> =
            hashers.iter_mut().zip(&inputs).map(|(hasher, input)| Lane { hasher, input }).collect();
        update_lanes_with(kernel, width, &mut lanes);
        for (hasher, input) in hashers.into_iter().zip(inputs) {
            assert_eq!(hasher.finalize_with(kernel), reference(&input.concat()));
        }
    }
}

/// Would run for minutes if a slice border cost more the more slices there are.
#[test]
fn very_many_slices() {
    let long = pattern(1 << 20);
    let tiny: Vec<&[u8]> = long.chunks(7).cycle().take(200_000).collect();
    let single: Vec<&[u8]> = long.chunks(1).take(100_000).collect();
    let mut hashers = [const { Sha256::new() }; 3];
    let inputs: [&[&[u8]]; 3] = [&tiny, &[&long], &single];
    let mut lanes: Vec<Lane<'_>> =
        hashers.iter_mut().zip(inputs).map(|(hasher, input)| Lane { hasher, input }).collect();
    update_lanes(&mut lanes);
    for (hasher, input) in hashers.into_iter().zip(inputs) {
        assert_eq!(hasher.finalize(), reference(&input.concat()));
    }
}

#[test]
fn restore_refuses_what_was_never_saved() {
    let mut hasher = Sha256::new();
    hasher.update(&pattern(BLOCK + 10));
    let saved = hasher.save();
    assert!(Sha256::restore(&saved).is_some());
    for length in (0..saved.len()).chain([saved.len() + 1, 2 * saved.len()]) {
        let bytes: Vec<u8> = saved.iter().chain(iter::repeat(&0)).copied().take(length).collect();
        assert!(Sha256::restore(&bytes).is_none(), "{length} bytes");
    }
    for unused in 32 + 10..32 + BLOCK {
        let mut bytes = saved;
        bytes[unused] = 1;
        assert!(Sha256::restore(&bytes).is_none(), "byte {unused}");
    }
    // The longest length has 63 bytes of a block, the next one none.
    for (length, good) in [(MAX_BYTES, true), (MAX_BYTES + 1, false), (1 << 63, false)] {
        let mut bytes = [0; Sha256::STATE_BYTES];
        bytes[32 + BLOCK..].copy_from_slice(&length.to_be_bytes());
        assert_eq!(Sha256::restore(&bytes).is_some(), good, "{length} bytes absorbed");
    }
    // A state that no block has been compressed into is the initial one.
    let mut short = Sha256::new();
    short.update(b"short");
    assert_eq!(short.state, INITIAL);
    let mut bytes = short.save();
    bytes[0] ^= 1;
    assert!(Sha256::restore(&bytes).is_none());
    assert!(Sha256::restore(&[0; Sha256::STATE_BYTES]).is_none());
}

/// A lane: bytes absorbed before, and the lengths its input is cut into. Many slices are empty, tiny, or end on a
/// block border, and some are long enough for many blocks at once.
fn lane() -> impl Strategy<Value = (usize, Vec<usize>)> {
    let slice = prop_oneof![
        2 => Just(0),
        4 => 1..=BLOCK + 1,
        2 => (1..=8_usize).prop_map(|blocks| blocks * BLOCK),
        1 => 0..3_000_usize,
    ];
    (0..3 * BLOCK, vec(slice, 0..20))
}

proptest! {
    #[test]
    fn lanes_absorb_what_updates_absorb(cuts in vec(lane(), 0..9), seed: u8) {
        let inputs: Vec<(Vec<u8>, usize)> = cuts
            .iter()
            .enumerate()
            .map(|(number, (before, lengths))| {
                let mut data = pattern(before + lengths.iter().sum::<usize>() + usize::from(seed));
                for byte in &mut data {
                    *byte ^= seed.wrapping_add(number.to_le_bytes()[0]);
                }
                (data, *before)
            })
            .collect();
        let slices: Vec<Vec<&[u8]>> =
            inputs.iter().zip(&cuts).map(|((data, before), (_, lengths))| cut(&data[*before..], lengths)).collect();
        for (kernel, width) in ways() {
            let mut hashers: Vec<Sha256> = Vec::new();
            for (data, before) in &inputs {
                let mut hasher = Sha256::new();
                hasher.update_with(kernel, &data[..*before]);
                hashers.push(hasher);
            }
            let mut one_by_one = hashers.clone();
            let mut lanes: Vec<Lane<'_>> =
                hashers.iter_mut().zip(&slices).map(|(hasher, input)| Lane { hasher, input }).collect();
            update_lanes_with(kernel, width, &mut lanes);
            for (hasher, slices) in one_by_one.iter_mut().zip(&slices) {
                for slice in slices {
                    hasher.update_with(kernel, slice);
                }
            }
            for ((hasher, other), (data, _)) in hashers.into_iter().zip(one_by_one).zip(&inputs) {
                prop_assert_eq!(hasher.len(), data.len() as u64);
                prop_assert_eq!(hasher.save(), other.save());
                prop_assert_eq!(hasher.finalize_with(kernel), reference(data));
            }
        }
    }

    #[test]
    fn a_saved_stream_goes_on(data in vec(any::<u8>(), 0..1_000), at: prop::sample::Index) {
        let at = at.index(data.len() + 1);
        let mut hasher = Sha256::new();
        hasher.update(&data[..at]);
        let saved = hasher.save();
        let mut restored = Sha256::restore(&saved).expect("just saved");
        prop_assert_eq!(restored.save(), saved);
        hasher.update(&data[at..]);
        restored.update(&data[at..]);
        // How the bytes were cut must not show, so neither may what an earlier block left behind.
        let mut whole = Sha256::new();
        whole.update(&data);
        prop_assert_eq!(restored.save(), whole.save());
        prop_assert_eq!(hasher.save(), whole.save());
        prop_assert_eq!(restored.finalize(), reference(&data));
    }

    #[test]
    fn restore_takes_nothing_it_would_not_save(bytes in vec(any::<u8>(), Sha256::STATE_BYTES), length in 0..200_u64) {
        let mut bytes = bytes;
        bytes[32 + BLOCK..].copy_from_slice(&length.to_be_bytes());
        if let Some(hasher) = Sha256::restore(&bytes) {
            prop_assert_eq!(hasher.save().to_vec(), bytes);
        }
    }
}
