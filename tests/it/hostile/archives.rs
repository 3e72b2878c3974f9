//! Tar archives that are not the plain archive of a directory.

use crate::support::archive::{Member, checksum, end, member, pax};
use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, SINGLE};
use crate::support::data;
use crate::support::server::TestServer;

fn parts(checkpoint: &Checkpoint) -> (Vec<u8>, Vec<u8>) {
    let header = member(&Member::file("header.json", checkpoint.header.len()), &checkpoint.header);
    let bytes = checkpoint.file(SINGLE);
    (header, member(&Member::file(SINGLE, bytes.len()), bytes))
}

/// Two members and something before, between or behind them.
fn with(checkpoint: &Checkpoint, place: usize, extra: &[u8]) -> Vec<u8> {
    let (header, weights) = parts(checkpoint);
    let mut out = Vec::new();
    for (at, part) in [&header, &weights].into_iter().enumerate() {
        if place == at {
            out.extend_from_slice(extra);
        }
        out.extend_from_slice(part);
    }
    if place == 2 {
        out.extend_from_slice(extra);
    }
    end(out)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_archives_are_refused_and_leave_nothing() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(1, 20_000, 3).build();
    let (header, weights) = parts(&checkpoint);
    let plain = end([header.clone(), weights.clone()].concat());
    let mut cases: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |what: &str, tar: Vec<u8>| cases.push((what.to_owned(), tar));

    let mut link = Member::file("weights-link", 0).kind(b'2');
    link.link = b"/etc/passwd";
    let kinds: [(&str, u8); 9] = [
        ("hard link", b'1'),
        ("symbolic link", b'2'),
        ("character device", b'3'),
        ("block device", b'4'),
        ("directory", b'5'),
        ("fifo", b'6'),
        ("GNU long name", b'L'),
        ("GNU sparse", b'S'),
        ("global pax", b'g'),
    ];
    for place in 0..3 {
        add(&format!("symbolic link at {place}"), with(&checkpoint, place, &link.block()));
        for (what, kind) in kinds {
            add(&format!("{what} at {place}"), with(&checkpoint, place, &Member::file("x", 0).kind(kind).block()));
        }
        let names = [
            "../x",
            "/etc/passwd",
            "./header.json",
            "sub/weights.safetensors",
            "a\\b",
            "x\n",
            "",
            ".",
            "..",
            ".hidden",
        ];
        for name in names {
            add(
                &format!("a file {name:?} at {place}"),
                with(&checkpoint, place, &member(&Member::file(name, 3), b"abc")),
            );
        }
        if place < 2 {
            add(&format!("a zero block at {place}"), with(&checkpoint, place, &[0; 512]));
        }
        add(&format!("junk at {place}"), with(&checkpoint, place, &[0x41; 512]));
    }
    add("header.json twice", with(&checkpoint, 1, &header));
    add("header.json twice at the end", with(&checkpoint, 2, &header));
    add("the weights twice", with(&checkpoint, 2, &weights));
    add("the weights first", end([weights.clone(), header.clone()].concat()));
    add("no weights", end(header.clone()));
    add("nothing but an end", end(Vec::new()));
    add("nothing at all", Vec::new());
    add("an unlisted file", with(&checkpoint, 2, &member(&Member::file("notes.txt", 3), b"abc")));
    add("a stray model.safetensors", with(&checkpoint, 2, &member(&Member::file("model.safetensors", 3), b"abc")));
    add("empty header.json", end([Member::file("header.json", 0).block(), weights.clone()].concat()));
    add("empty weights", end([header.clone(), Member::file(SINGLE, 0).block()].concat()));

    // Sizes that lie.
    let bytes = checkpoint.file(SINGLE);
    for (what, size) in [
        ("one more", bytes.len() as u64 + 1),
        ("one less", bytes.len() as u64 - 1),
        ("8 GiB", 8 << 30),
        ("more than 64 bits can add", u64::MAX >> 1),
        ("nearly nothing", 8),
    ] {
        let mut told = Member::file(SINGLE, 0);
        told.size = size;
        let mut block = told.block();
        block.extend_from_slice(&weights[512..]);
        add(&format!("weights of {what}"), end([header.clone(), block].concat()));
    }
    let mut huge = Member::file("header.json", 0);
    huge.size = 17 << 20;
    add("header.json of 17 MiB", [huge.block(), header[512..].to_vec()].concat());
    let mut negative = header.clone();
    negative[124..136].copy_from_slice(&[0xff; 12]);
    checksum(&mut negative[..512]);
    add("a negative size", end([negative, weights.clone()].concat()));
    let mut letters = header.clone();
    letters[124..136].copy_from_slice(b"99999999999\0");
    checksum(&mut letters[..512]);
    add("a size that is not octal", end([letters, weights.clone()].concat()));
    let mut wrong = plain.clone();
    wrong[148] ^= 1;
    add("a wrong checksum", wrong);
    let mut prefixed = Member::file(SINGLE, bytes.len());
    prefixed.prefix = b"sub";
    add("a ustar prefix", end([header.clone(), member(&prefixed, bytes)].concat()));

    let mut old = Member::file(SINGLE, bytes.len()).kind(0);
    old.magic = b"\0\0\0\0\0\0\0\0";
    add("the form before ustar", end([header.clone(), member(&old, bytes)].concat()));

    // Extended headers.
    let pax_case = |records: &[(&str, &str)]| with(&checkpoint, 1, &pax(records));
    for (what, records) in [
        ("path to another place", vec![("path", "../../etc/passwd")]),
        ("path to another file", vec![("path", "other.safetensors")]),
        ("path twice", vec![("path", SINGLE), ("path", SINGLE)]),
        ("size that is not a number", vec![("size", "many")]),
        ("size that is another", vec![("size", "99")]),
        ("negative size", vec![("size", "-1")]),
        ("link", vec![("linkpath", "/etc/passwd")]),
        ("sparse file", vec![("GNU.sparse.major", "1"), ("GNU.sparse.name", SINGLE)]),
        ("character set", vec![("hdrcharset", "BINARY")]),
        ("extended attribute", vec![("SCHILY.xattr.user.x", "y")]),
    ] {
        add(&format!("pax: {what}"), pax_case(&records));
    }
    let broken =
        |text: &str| with(&checkpoint, 1, &member(&Member::file("pax", text.len()).kind(b'x'), text.as_bytes()));
    for text in
        ["9 path=x", "6 path=x\n", "999999999999999999999999 path=x\n", "path=x\n", "\n", "0 path=x\n", "9  ath=x\n"]
    {
        add(&format!("pax: broken record {text:?}"), broken(text));
    }
    add("pax: 1 MiB of records", with(&checkpoint, 1, &pax(&[("comment", &"x".repeat(1 << 20))])));
    add("pax: two in a row", with(&checkpoint, 1, &[pax(&[("path", SINGLE)]), pax(&[("path", SINGLE)])].concat()));

    // Cut off everywhere, with a clean end of the body.
    for upto in [1, 511, 512, 600, header.len(), header.len() + 512, plain.len() - 1024 - 512, plain.len() - 1024 - 1] {
        add(&format!("cut at {upto}"), plain[..upto].to_vec());
    }
    add("a second archive behind the end", [plain.clone(), plain.clone()].concat());
    add("words behind the end", [plain.clone(), vec![b'!'; 512]].concat());
    let mut padded = plain.clone();
    padded[512 + checkpoint.header.len()] = 1;
    add("padding that holds something", padded);
    // The first bytes of other formats.
    for start in [b"\x1f\x8b\x08\0\0\0\0\0".as_slice(), b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\0", b"PK\x03\x04"] {
        add(&format!("compressed {start:?}"), [start, &plain[start.len()..]].concat());
    }

    let mut taken = Vec::new();
    for (what, tar) in &cases {
        let answer = server.api.put(&checkpoint.content_hash, tar.clone()).await;
        if answer.status.is_success() {
            taken.push(what);
            continue;
        }
        let problem = answer.problem();
        let code = problem["code"].as_str().unwrap();
        let known = ["artifact_invalid", "checkpoint_integrity", "registry_too_large"].contains(&code);
        assert!(answer.status.is_client_error() && known, "{what}: {problem}");
        if taken.is_empty() {
            data::assert_nothing_left(server.dir(), what).await;
        }
    }
    assert_eq!(taken, Vec::<&String>::new());
    assert!(cases.len() > 100, "{}", cases.len());
    assert_eq!(server.api.put(&checkpoint.content_hash, plain).await.status, 201);
}

/// What other tar programs write for the same plain directory.
#[tokio::test]
async fn archives_of_other_writers_are_taken() {
    let checkpoint = CheckpointBuilder::sized(2, 20_000, 3).build();
    let (header, weights) = parts(&checkpoint);
    let bytes = checkpoint.file(SINGLE);
    let gnu = |name: &'static str, data: &[u8]| {
        let mut told = Member::file(name, data.len());
        told.magic = b"ustar  \0";
        member(&told, data)
    };
    let mut base_256 = Member::file(SINGLE, bytes.len()).block();
    base_256[124..136].copy_from_slice(&[[0x80, 0, 0, 0].as_slice(), &(bytes.len() as u64).to_be_bytes()].concat());
    checksum(&mut base_256);
    let times = pax(&[("mtime", "1750000000.123456789"), ("atime", "1750000000.5"), ("uid", "1000"), ("comment", "x")]);
    let long = pax(&[("path", SINGLE), ("size", &bytes.len().to_string())]);
    let zero = Member::file("pax-name-that-is-not-used", 0);
    for (what, tar) in [
        ("gnu", [gnu("header.json", &checkpoint.header), gnu(SINGLE, bytes)].concat()),
        ("base 256", [header.clone(), base_256, weights[512..].to_vec()].concat()),
        ("pax times", [times.clone(), header.clone(), times, weights.clone()].concat()),
        ("pax path and size", [header.clone(), long, zero.block(), weights[512..].to_vec()].concat()),
    ] {
        let server = TestServer::start().await;
        let answer = server.api.put(&checkpoint.content_hash, end(tar.clone())).await;
        assert_eq!(answer.status, 201, "{what}: {}", answer.text());
        server.api.check(&checkpoint).await;
        // With the padding of a tape block, and without any end.
        let taped = [end(tar.clone()), vec![0; 10_240]].concat();
        assert_eq!(server.api.put(&checkpoint.content_hash, taped).await.status, 200, "{what}");
    }
}
