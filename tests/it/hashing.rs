//! Properties of the hashes, on artifacts made from nothing and hashed a second time in the plainest way.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::sync::Arc;

use cairn::client::directory;
use cairn::client::progress::Silent;
use cairn::core::checkpoint::Header;
use cairn::core::intake::{FileIntake, Intake, Verified};
use cairn::core::limits::Limits;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};

#[derive(Clone, Debug)]
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
    /// Where it goes: a shard, and a place in it.
    place: u32,
}

#[derive(Clone, Debug)]
struct Artifact {
    header: String,
    files: Vec<(String, Vec<u8>)>,
    content_hash: String,
    groups: BTreeMap<String, String>,
    /// Bytes of the header that no hash covers.
    free: Vec<Range<usize>>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn codes(dtype: Dtype) -> (&'static str, &'static str, usize) {
    match dtype {
        Dtype::F32 => ("F32", "float32", 4),
        Dtype::F16 => ("F16", "float16", 2),
        _ => ("BF16", "bfloat16", 2),
    }
}

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

fn build(tensors: &BTreeMap<String, Tensor>, shards: usize, round: u64, version: u32) -> Artifact {
    let shards = shards.min(tensors.len());
    let mut groups: Vec<&str> = tensors.keys().map(|name| name.split('.').next().unwrap()).collect();
    groups.dedup();
    let parent = if round == 0 { String::new() } else { hex(&Sha256::digest(round.to_le_bytes())) };

    let mut stream = b"lensemble/artifact/v1\0tensors\0".to_vec();
    for (name, tensor) in tensors {
        let (_, token, _) = codes(tensor.dtype);
        stream.extend((name.len() as u32).to_le_bytes());
        stream.extend(name.as_bytes());
        stream.push(token.len() as u8);
        stream.extend(token.as_bytes());
        stream.extend((tensor.shape.len() as u32).to_le_bytes());
        stream.extend(tensor.shape.iter().flat_map(|dim| (*dim as u64).to_le_bytes()));
        stream.extend(&tensor.data);
    }
    let list = format!("[{}]", groups.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(","));
    let frame = format!(
        r#"{{"param_groups":{list},"parent_hash":"{parent}","round_index":{round},"schema_version":{version},"wmcp_version":"wmcp-1.0.0"}}"#
    );
    stream.extend(b"\0struct\0");
    stream.extend((frame.len() as u32).to_le_bytes());
    stream.extend(frame.as_bytes());
    let content_hash = hex(&Sha256::digest(&stream));

    // The first tensors make sure that no shard is empty; the others go anywhere.
    let mut placed: Vec<Vec<(&String, &Tensor)>> = vec![Vec::new(); shards];
    for (index, pair) in tensors.iter().enumerate() {
        let shard = if index < shards { index } else { pair.1.place as usize % shards };
        placed[(shard + round as usize) % shards].push(pair);
    }
    let names: Vec<String> = match shards {
        1 => vec!["weights.safetensors".to_owned()],
        _ => (0..shards).map(|index| format!("weights-{index:05}-of-{shards:05}.safetensors")).collect(),
    };
    let files = names.iter().cloned().zip(placed.into_iter().map(container)).collect();

    let (header, free) = header(tensors, &names, (&content_hash, &parent), (round, version, &list));
    Artifact { header, files, groups: group_hashes(tensors), content_hash, free }
}

/// A safetensors file whose tensors lie in an order of their own.
fn container(mut tensors: Vec<(&String, &Tensor)>) -> Vec<u8> {
    tensors.sort_by_key(|(_, tensor)| tensor.place);
    let mut offset = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, tensor)| {
            let begin = offset;
            offset += tensor.data.len();
            let (code, _, _) = codes(tensor.dtype);
            format!(r#""{name}":{{"dtype":"{code}","shape":{:?},"data_offsets":[{begin},{offset}]}}"#, tensor.shape)
                .replace(' ', "")
        })
        .collect();
    let json = format!("{{{}}}", entries.join(","));
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.extend(tensors.iter().flat_map(|(_, tensor)| &tensor.data));
    bytes
}

/// The header's text, and where in it lies what no hash covers.
fn header(
    tensors: &BTreeMap<String, Tensor>,
    names: &[String],
    (content_hash, parent): (&str, &str),
    (round, version, groups): (u64, u32, &str),
) -> (String, Vec<Range<usize>>) {
    let manifest: Vec<String> = tensors
        .iter()
        .map(|(name, tensor)| {
            let group = name.split('.').next().unwrap();
            let (_, token, _) = codes(tensor.dtype);
            format!(r#"{{"name":"{name}","group":"{group}","dtype":"{token}","shape":{:?}}}"#, tensor.shape)
        })
        .collect();
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    let mut text = String::new();
    let mut free = Vec::new();
    let mut put = |part: &str, is_free: bool| {
        if is_free {
            free.push(text.len()..text.len() + part.len());
        }
        text.push_str(part);
    };
    put(&format!(r#"{{"schema_version":{version},"content_hash":"{content_hash}","parent_hash":{parent},"#), false);
    put(&format!(r#""wmcp_version":"wmcp-1.0.0","round_index":{round},"config_hash":""#), false);
    put(&"a5".repeat(32), true);
    put(&format!(r#"","param_groups":{groups},"tensor_manifest":[{}],"#, manifest.join(",")), false);
    put(&format!(r#""weight_files":{names:?},"created_at":""#), false);
    put("2026-06-11T09:31:01Z", true);
    put("\"}", false);
    (text, free)
}

/// H2 by the safetensors crate itself.
fn group_hashes(tensors: &BTreeMap<String, Tensor>) -> BTreeMap<String, String> {
    let mut groups = BTreeMap::new();
    for group in ["encoder", "predictor"] {
        let members = tensors.iter().filter_map(|(name, tensor)| {
            let bare = name.strip_prefix(group)?.strip_prefix('.')?;
            Some((bare, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.data).unwrap()))
        });
        let members: Vec<_> = members.collect();
        if !members.is_empty() {
            let bytes = safetensors::serialize(members, None).unwrap();
            groups.insert(group.to_owned(), hex(&Sha256::digest(bytes)));
        }
    }
    groups
}

fn write(artifact: &Artifact) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("header.json"), &artifact.header).unwrap();
    for (name, bytes) in &artifact.files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
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
        let directory = write(&artifact);
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
        let directory = write(&artifact);
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
        let directory = write(&artifact);
        let mut text = artifact.header.into_bytes();
        text[at] ^= 1u8 << bit;
        fs::write(directory.path().join("header.json"), text).unwrap();
        let error = directory::verify(directory.path(), None, &Silent).unwrap_err();
        prop_assert!(error.is_verdict());
    }
}
