//! Weight files that other tools let through, or choke on: each row is a file that somebody has met.

use serde_json::{Value, json};

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, Dtype, INDEX, SINGLE};
use crate::support::client::Answer;
use crate::support::data;
use crate::support::server::TestServer;

/// A file with this JSON text and these element bytes.
fn raw(json: &str, data: &[u8]) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), data].concat()
}

/// Sends a weight file under the header of `checkpoint`, in both ways; the answers must agree.
async fn send(server: &TestServer, checkpoint: &Checkpoint, file: &[u8], what: &str) -> Answer {
    let api = &server.api;
    let mut wrong = checkpoint.clone();
    wrong.files[0].1 = file.to_vec();
    let put = api.push(&wrong).await;
    let session = api.session(&checkpoint.header).await;
    let mut answer = api.patch(&session, SINGLE, 0, file.to_vec()).await;
    if answer.status.is_success() {
        answer = api.finish(&session).await;
    }
    if put.status.is_success() {
        assert_eq!((put.status.as_u16(), answer.status.as_u16()), (201, 200), "{what}: {}", answer.text());
    } else {
        let (one, other) = (put.problem(), answer.problem());
        assert_eq!((put.status, &one["code"]), (answer.status, &other["code"]), "{what}: {one} {other}");
        api.delete(&session).await;
        data::assert_nothing_left(server.dir(), what).await;
    }
    put
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_containers_are_refused_for_the_right_reason() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::empty(1).tensor("encoder.w", Dtype::F32, &[2]).build();
    let element = checkpoint.tensors[0].data.clone();
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"encoder.w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let f32 = r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    let deep = format!(r#"{{"encoder.w":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    let text = |json: String| raw(&json, &element);
    let integrity = "checkpoint_integrity";
    let rows: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        (
            "one name twice, with other types",
            text(format!(r#"{{"encoder.w":{f32},"encoder.w":{}}}"#, f32.replace("F32", "I32"))),
            "artifact_invalid",
            "",
        ),
        ("one name twice, the same", text(format!(r#"{{"encoder.w":{f32},"encoder.w":{f32}}}"#)), integrity, "twice"),
        (
            "four bytes too many",
            [text(entry("F32", "[2]", "[0,8]")), vec![9, 7, 0x2F, 0]].concat(),
            integrity,
            "4 bytes after the last tensor",
        ),
        (
            "four bytes too few",
            text(entry("F32", "[2]", "[0,8]"))[..raw(&entry("F32", "[2]", "[0,8]"), b"").len() + 4].to_vec(),
            integrity,
            "",
        ),
        ("tied weights", text(format!(r#"{{"encoder.k":{f32},"encoder.w":{f32}}}"#)), integrity, "overlaps"),
        ("a hole", raw(&entry("F32", "[2]", "[8,16]"), &[0; 16]), integrity, "gap"),
        ("2^32 x 2^32", text(entry("F32", "[4294967296,4294967296]", "[0,8]")), integrity, "overflow"),
        ("2^63+2 x 2", text(entry("F32", "[9223372036854775810,2]", "[0,8]")), integrity, "overflow"),
        ("overflow behind a zero", text(entry("F32", "[0,9223372036854775808,4]", "[0,0]")), integrity, "overflow"),
        ("an end at 2^64 - 1", text(entry("F32", "[2]", "[18446744073709551607,18446744073709551615]")), integrity, ""),
        ("reversed offsets", text(entry("F32", "[2]", "[8,0]")), integrity, "ends before it begins"),
        ("shape larger than offsets", text(entry("F32", "[3]", "[0,8]")), integrity, "do not fit"),
        ("F8", text(entry("F8_E4M3", "[8]", "[0,8]")), "artifact_invalid", "not allowed"),
        ("F8 scale", text(entry("F8_E8M0", "[8]", "[0,8]")), "artifact_invalid", "not allowed"),
        ("F4", text(entry("F4", "[16]", "[0,8]")), "artifact_invalid", "not allowed"),
        (
            "F4 with a huge dimension",
            text(entry("F4", "[1,9223372036854775809]", "[0,8]")),
            "artifact_invalid",
            "not allowed",
        ),
        ("an unknown type", text(entry("I4", "[2]", "[0,8]")), integrity, "not one that safetensors knows"),
        ("a type in lower case", text(entry("f32", "[2]", "[0,8]")), integrity, "not one that safetensors knows"),
        (
            "an unknown type with wrong offsets",
            text(entry("Q8", "[900]", "[0,1]")),
            integrity,
            "not one that safetensors knows",
        ),
        ("dimension -1", text(entry("F32", "[-1]", "[0,8]")), integrity, "not valid"),
        ("dimension 1e3", text(entry("F32", "[1e3]", "[0,8]")), integrity, "not valid"),
        ("dimension 2.0", text(entry("F32", "[2.0]", "[0,8]")), integrity, "not valid"),
        ("dimension in quotes", text(entry("F32", "[\"2\"]", "[0,8]")), integrity, "not valid"),
        ("dimension 2^64", text(entry("F32", "[18446744073709551616]", "[0,8]")), integrity, "not valid"),
        ("dimension 2^53+1", text(entry("F32", "[9007199254740993]", "[0,8]")), integrity, "do not fit"),
        ("one offset", text(entry("F32", "[2]", "[0]")), integrity, "not valid"),
        ("three offsets", text(entry("F32", "[2]", "[0,8,8]")), integrity, "not valid"),
        ("nine dimensions", text(entry("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]")), integrity, "too many dimensions"),
        ("an entry as an array", text(r#"{"encoder.w":["F32",[2],[0,8]]}"#.to_owned()), integrity, "not valid"),
        (
            "a type as an object",
            text(r#"{"encoder.w":{"dtype":{"F32":null},"shape":[2],"data_offsets":[0,8]}}"#.to_owned()),
            integrity,
            "not valid",
        ),
        (
            "an unknown key",
            text(format!(r#"{{"encoder.w":{}}}"#, f32.replace("}", ",\"x\":1}"))),
            integrity,
            "not valid",
        ),
        (
            "a key twice",
            text(format!(r#"{{"encoder.w":{}}}"#, f32.replace("}", ",\"shape\":[2]}"))),
            integrity,
            "not valid",
        ),
        ("an entry of null", text(r#"{"encoder.w":null}"#.to_owned()), integrity, "not valid"),
        (
            "metadata twice",
            text(format!(r#"{{"__metadata__":{{}},"__metadata__":{{}},"encoder.w":{f32}}}"#)),
            integrity,
            "twice",
        ),
        (
            "metadata with a number",
            text(format!(r#"{{"__metadata__":{{"format":1}},"encoder.w":{f32}}}"#)),
            integrity,
            "not valid",
        ),
        (
            "a metadata key twice",
            text(format!(r#"{{"__metadata__":{{"format":"pt","format":"pt"}},"encoder.w":{f32}}}"#)),
            integrity,
            "not valid",
        ),
        (
            "metadata with free text",
            text(format!(r#"{{"__metadata__":{{"note":"x"}},"encoder.w":{f32}}}"#)),
            integrity,
            "may hold only",
        ),
        (
            "metadata with another hash",
            text(format!(r#"{{"__metadata__":{{"content_hash":"{}"}},"encoder.w":{f32}}}"#, "0".repeat(64))),
            integrity,
            "contradicts",
        ),
        ("no tensor", raw("{}", b""), "artifact_invalid", ""),
        ("an array", raw("[]", b""), integrity, ""),
        ("a tab in front", text(format!("\t{}", entry("F32", "[2]", "[0,8]"))), integrity, "not the '{'"),
        ("a newline behind", text(format!("{}\n", entry("F32", "[2]", "[0,8]"))), integrity, "padded"),
        ("more JSON behind", text(format!("{}{{}}", entry("F32", "[2]", "[0,8]"))), integrity, "not valid"),
        (
            "a raw control character",
            text(entry("F32", "[2]", "[0,8]").replace("encoder.w", "encoder.\u{1}")),
            integrity,
            "not valid",
        ),
        (
            "a lone surrogate",
            text(entry("F32", "[2]", "[0,8]").replace("encoder.w", "encoder.\\ud800")),
            integrity,
            "not valid",
        ),
        ("5000 arrays in each other", text(deep), integrity, "not valid"),
        (
            "a name of 513 bytes",
            text(entry("F32", "[2]", "[0,8]").replace("encoder.w", &format!("encoder.{}", "w".repeat(505)))),
            integrity,
            "too long",
        ),
        (
            "a tensor of a private group",
            text(entry("F32", "[2]", "[0,8]").replace("encoder.w", "action_head.w")),
            "residency_violation",
            "",
        ),
        ("zeros", vec![0; 4096], integrity, "too short"),
        ("no byte", Vec::new(), integrity, ""),
        ("seven bytes", vec![0x40, 0, 0, 0, 0, 0, 0], integrity, ""),
    ];
    for (what, file, code, said) in rows {
        let answer = send(&server, &checkpoint, &file, what).await;
        let problem = answer.refused(422, code);
        assert!(problem["message"].as_str().unwrap().contains(said), "{what}: {problem}");
        if said == "not allowed" || said.starts_with("not one") {
            assert_eq!(problem["fields"]["allowed"], json!(["F32", "BF16", "F16"]), "{what}: {problem}");
        }
        if code == "residency_violation" {
            assert!(!problem.to_string().contains("action_head.w"), "{problem}");
            assert_eq!(problem["invariant"], "INV-ACTIONHEAD-LOCAL");
        }
    }
    assert_eq!(send(&server, &checkpoint, checkpoint.file(SINGLE), "the right one").await.status, 201);
}

/// Odd but legal: taken, kept byte for byte, and of the same content hash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_but_legal_containers_are_taken() {
    let checkpoint = CheckpointBuilder::empty(2).tensor("encoder.w", Dtype::F32, &[2]).build();
    let element = checkpoint.tensors[0].data.clone();
    let entry = r#""encoder.w":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}"#;
    let mut digests = std::collections::HashSet::new();
    for (what, json, warned) in [
        ("metadata null", format!(r#"{{"__metadata__":null,{entry}}}"#), true),
        ("metadata empty", format!(r#"{{"__metadata__":{{}},{entry}}}"#), true),
        ("no metadata", format!("{{{entry}}}"), false),
        ("metadata behind", format!(r#"{{{entry},"__metadata__":{{"format":"np"}}}}"#), false),
        ("padded to an odd length", format!(r#"{{{entry},"__metadata__":{{"format":"pt"}}}}         "#), false),
        ("escapes", format!("{{{}}}", entry.replace("encoder.w", "\\u0065ncoder\\u002ew")), false),
        ("blanks and newlines inside", format!("{{ \n{} }}", entry.replace(',', " ,\t")), false),
    ] {
        let server = TestServer::start().await;
        let file = raw(&json, &element);
        let answer = send(&server, &checkpoint, &file, what).await;
        assert_eq!(answer.status, 201, "{what}: {}", answer.text());
        let artifact = answer.json();
        assert_eq!(artifact["warnings"].as_array().is_some_and(|list| !list.is_empty()), warned, "{what}: {artifact}");
        assert!(digests.insert(artifact["files"][0]["blob_hash"].to_string()), "{what}");
        assert_eq!(artifact["groups"][0]["group_hash"], crate::support::checkpoint::sha256(&checkpoint.groups[0].1));
        let mut stored = checkpoint.clone();
        stored.files[0].1 = file;
        server.api.check(&stored).await;
        // The same checkpoint as the writer would have written it is already there.
        assert_eq!(server.api.push(&checkpoint).await.status, 200, "{what}");
        server.api.check(&stored).await;
        data::assert_no_orphans(server.dir()).await;
    }
}

/// An index is judged by the shards, never the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_disagrees_with_the_shards_is_refused() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::sized(3, 4_000, 4).shards(2).index().build();
    let right: Value = serde_json::from_slice(checkpoint.file(INDEX)).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut index = right.clone();
        change(&mut index);
        serde_json::to_vec(&index).unwrap()
    };
    let text = String::from_utf8(checkpoint.file(INDEX).to_vec()).unwrap();
    let other = "weights-00001-of-00002.safetensors";
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("a tensor in the wrong shard", changed(&|index| index["weight_map"]["encoder.t0000"] = other.into())),
        ("a tensor too many", changed(&|index| index["weight_map"]["encoder.x"] = other.into())),
        (
            "a tensor too few",
            changed(&|index| drop(index["weight_map"].as_object_mut().unwrap().remove("encoder.t0001"))),
        ),
        (
            "a shard that does not exist",
            changed(&|index| index["weight_map"]["encoder.t0000"] = "weights-00002-of-00003.safetensors".into()),
        ),
        ("a path", changed(&|index| index["weight_map"]["encoder.t0000"] = "../../.ssh/authorized_keys".into())),
        ("another total", changed(&|index| index["metadata"]["total_size"] = 1.into())),
        ("a fraction as total", changed(&|index| index["metadata"]["total_size"] = 4000.0.into())),
        ("an unknown key", changed(&|index| index["x"] = 1.into())),
        ("no map", b"{}".to_vec()),
        ("an array", b"[]".to_vec()),
        ("an error page appended", format!("{text}Range not satisfiable").into_bytes()),
        (
            "a tensor twice",
            text.replace("\"weight_map\":{", &format!("\"weight_map\":{{\"encoder.t0000\":\"{other}\",")).into_bytes(),
        ),
        ("nothing", Vec::new()),
    ];
    for (what, index) in rows {
        let mut wrong = checkpoint.clone();
        wrong.files[2].1 = index;
        let problem = api.push(&wrong).await.refused(422, "checkpoint_integrity");
        assert_eq!(problem["fields"]["file"], INDEX, "{what}: {problem}");
        if !wrong.files[2].1.is_empty() {
            api.store_by_session(&wrong).await.refused(422, "checkpoint_integrity");
        }
        data::assert_nothing_left(server.dir(), what).await;
    }
    for without in
        [changed(&|index| drop(index.as_object_mut().unwrap().remove("metadata"))), right.to_string().into_bytes()]
    {
        let server = TestServer::start().await;
        let mut stored = checkpoint.clone();
        stored.files[2].1 = without;
        server.api.store(&stored).await;
        server.api.check(&stored).await;
    }
}
