//! Every golden checkpoint through both ways in: what must be taken is taken and given back byte for byte, what must
//! be refused is refused with the right code and leaves nothing.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::archive::{self, Member};
use crate::support::checkpoint::{CheckpointBuilder, sha256};
use crate::support::client::{Answer, Api};
use crate::support::data;
use crate::support::golden::{Vector, vectors};
use crate::support::history::segment;
use crate::support::rng::Rng;
use crate::support::server::TestServer;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Put,
    Session,
}

/// Where a vector is sent: the hash in its header if there is one that can stand in a path.
fn address(files: &[(String, Vec<u8>)]) -> String {
    let header: Option<Value> =
        files.first().filter(|(name, _)| name == "header.json").and_then(|(_, text)| serde_json::from_slice(text).ok());
    let told = header.as_ref().and_then(|header| header["content_hash"].as_str());
    let plain = |text: &&str| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    told.filter(plain).map_or_else(|| sha256(b"nothing has this hash"), str::to_owned)
}

/// A tar with whatever names the files have; a file in a directory brings the directory with it.
fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in files {
        if let Some((directory, _)) = name.rsplit_once('/').filter(|(directory, _)| !directory.starts_with('.')) {
            out.extend_from_slice(&Member::file(&format!("{directory}/"), 0).kind(b'5').block());
        }
        out.extend_from_slice(&archive::member(&Member::file(name, bytes.len()), bytes));
    }
    archive::end(out)
}

/// Sends the files; the first refusal, or the answer to the last request. Also gives the session that was opened.
async fn send(api: &Api, way: Way, files: &[(String, Vec<u8>)], rng: &mut Rng) -> (Answer, Option<String>) {
    if way == Way::Put {
        return (api.put(&address(files), tar(files)).await, None);
    }
    let (header, rest) = match files.split_first() {
        Some(((name, text), rest)) if name == "header.json" => (text.clone(), rest),
        _ => (Vec::new(), files),
    };
    let answer = api.open(header).await;
    if !answer.status.is_success() {
        return (answer, None);
    }
    let session = answer.header("location").to_owned();
    for (name, bytes) in rest {
        // Cut somewhere, since the verdict must not depend on that.
        let cut = rng.below(bytes.len() as u64 + 1) as usize;
        for (from, part) in [(0, &bytes[..cut]), (cut, &bytes[cut..])] {
            let answer = api.patch(&session, &segment(name), from as u64, part.to_vec()).await;
            if !answer.status.is_success() {
                return (answer, Some(session));
            }
        }
    }
    (api.finish(&session).await, Some(session))
}

/// Pairs of empty registries. Vectors that share a content hash and differ in what lies outside of it must not meet,
/// so each goes to the first pair that has not seen its hash.
#[derive(Default)]
struct Pairs(Vec<(TestServer, TestServer, HashSet<String>)>);

impl Pairs {
    async fn fresh_for(&mut self, hash: String) -> (&TestServer, &TestServer) {
        let unseen = self.0.iter().position(|(_, _, seen)| !seen.contains(&hash));
        let at = match unseen {
            Some(at) => at,
            None => {
                self.0.push((TestServer::start().await, TestServer::start().await, HashSet::new()));
                self.0.len() - 1
            }
        };
        let (one, other, seen) = &mut self.0[at];
        seen.insert(hash);
        (one, other)
    }
}

async fn check_accepted(pairs: &mut Pairs, vector: &Vector, way: Way, rng: &mut Rng) {
    let what = &vector.id;
    let files = vector.read();
    let (server, other) = pairs.fresh_for(address(&files)).await;
    let api = &server.api;
    let (answer, _) = send(api, way, &files, rng).await;
    assert_eq!(answer.status, 201, "{what} by {way:?}: {}", answer.text());
    let artifact = answer.json();
    let hash = artifact["content_hash"].as_str().unwrap();
    if let Some(expected) = vector.expect["content_hash"].as_str() {
        assert_eq!(hash, expected, "{what}");
        assert_eq!(artifact["header"]["round_index"], vector.expect["round_index"], "{what}");
        assert_eq!(artifact["parent_hash"], vector.expect["parent_hash"], "{what}");
        let groups = artifact["groups"].as_array().unwrap();
        let told = groups.iter().map(|group| (group["name"].as_str().unwrap(), &group["group_hash"]));
        let expected = vector.group_hashes.iter().map(|(name, hash)| (name.as_str(), json!(hash)));
        assert!(told.eq(expected.collect::<Vec<_>>().iter().map(|(name, hash)| (*name, hash))), "{what}: {groups:?}");
    }
    check_bytes(api, vector, &artifact, &files).await;

    // The archive goes into another registry as it is, and into this one a second time.
    let archived = api.get(&format!("/v1/artifacts/{hash}/archive.tar")).await.expect(reqwest::StatusCode::OK);
    let copied = other.api.put(hash, archived.body.clone()).await.expect(reqwest::StatusCode::CREATED).json();
    assert_eq!((&copied["files"], &copied["groups"]), (&artifact["files"], &artifact["groups"]), "{what}");
    let again = api.put(hash, archived.body).await;
    assert_eq!(again.status, 200, "{what} again: {}", again.text());
    let (again, _) = send(api, way, &files, rng).await;
    assert_eq!(again.status, 200, "{what} again by {way:?}: {}", again.text());
    data::assert_no_orphans(server.dir()).await;
}

async fn check_bytes(api: &Api, vector: &Vector, artifact: &Value, files: &[(String, Vec<u8>)]) {
    let what = &vector.id;
    let path = format!("/v1/artifacts/{}", artifact["content_hash"].as_str().unwrap());
    let get = async |path: String| api.get(&path).await.expect(reqwest::StatusCode::OK);
    assert_eq!(get(format!("{path}/header.json")).await.body, files[0].1, "{what}");
    let told = artifact["files"].as_array().unwrap();
    assert_eq!(told.len(), files.len() - 1, "{what}");
    for file in told {
        let name = file["name"].as_str().unwrap();
        let sent = &files.iter().find(|(sent, _)| sent == name).unwrap().1;
        assert!(get(format!("{path}/files/{name}")).await.body == *sent, "{what}: {name}");
        assert_eq!(file["blob_hash"].as_str().unwrap(), sha256(sent), "{what}: {name}");
    }
    for group in artifact["groups"].as_array().unwrap() {
        let (name, hash) = (group["name"].as_str().unwrap(), group["group_hash"].as_str().unwrap());
        let bytes = get(format!("{path}/groups/{name}.safetensors")).await.body;
        assert_eq!(sha256(&bytes), hash, "{what}: {name}");
        assert!(get(format!("/v1/params/{hash}")).await.body == bytes, "{what}: {name}");
    }
    // Every tensor, against what the reference implementation of the format reads from the files.
    let header: Value = serde_json::from_slice(&files[0].1).unwrap();
    let mut seen = 0;
    for (_, bytes) in files[1..].iter().filter(|(name, _)| name.ends_with(".safetensors")) {
        let read = safetensors::SafeTensors::deserialize(bytes).unwrap();
        for (name, view) in read.tensors() {
            let tensor = get(format!("{path}/tensors/{}", segment(&name))).await;
            assert!(tensor.body == view.data(), "{what}: tensor {name:?}");
            assert_eq!(tensor.header("x-tensor-shape"), json!(view.shape()).to_string(), "{what}: {name:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, header["tensor_manifest"].as_array().unwrap().len(), "{what}");
}

async fn check_refused(server: &TestServer, vector: &Vector, way: Way, rng: &mut Rng) {
    let (api, what) = (&server.api, format!("{} by {way:?}", vector.id));
    let files = vector.read();
    let (answer, session) = send(api, way, &files, rng).await;
    assert!(answer.status.is_client_error(), "{what}: {} {}", answer.status, answer.text());
    let problem = answer.problem();
    assert!(vector.codes().contains(&problem["code"].as_str().unwrap()), "{what}: {problem}");
    let visible = api.get(&format!("/v1/artifacts/{}", address(&files))).await;
    visible.refused(404, "registry_not_found");
    if let Some(session) = session {
        let state = api.get(&session).await.expect(reqwest::StatusCode::OK).json()["state"].clone();
        assert!(state == "open" || state == "refused", "{what}: {state}");
        // What was refused in a file was dropped with its refusal; what else has arrived goes with the session.
        api.delete(&session).await.expect(reqwest::StatusCode::NO_CONTENT);
        api.finish(&session).await.problem();
    }
    data::assert_nothing_left(server.dir(), &what).await;
    assert_eq!(api.get("/readyz").await.status, 200, "{what}");
}

/// A valid artifact, of which another hash is asked for.
async fn check_expectation(vector: &Vector, way: Way, rng: &mut Rng) {
    let server = TestServer::start().await;
    let (api, files) = (&server.api, vector.read());
    let expected = vector.expected_hash.as_deref().unwrap();
    if way == Way::Put && expected.len() == 64 {
        let problem = api.put(expected, tar(&files)).await.refused(422, vector.codes()[0]);
        assert_eq!(problem["fields"]["expected_hash"], expected, "{problem}");
        assert_eq!(problem["fields"]["got_hash"], address(&files), "{problem}");
        data::assert_nothing_left(server.dir(), &vector.id).await;
    }
    let (answer, _) = send(api, way, &files, rng).await;
    assert_eq!(answer.status, 201, "{}: {}", vector.id, answer.text());
    let path = format!("/v1/artifacts/{}", address(&files));
    let body = json!({"expected_hash": expected}).to_string();
    let problem = api.verify(&path, body).await.refused(422, vector.codes()[0]);
    assert_eq!(problem["invariant"], "INV-CHECKPOINT-HASH", "{problem}");
    let body = json!({"expected_hash": address(&files)}).to_string();
    assert_eq!(api.verify(&path, body).await.json()["ok"], true);
}

/// Positive vectors, in four tests so that they share the processors.
async fn accepted(quarter: usize) {
    let vectors = vectors("checkpoint");
    assert_eq!(vectors.len(), 38);
    let (mut rng, mut pairs) = (Rng::new(quarter as u64), [Pairs::default(), Pairs::default()]);
    for vector in vectors.iter().skip(quarter).step_by(4) {
        assert!(vector.accepted() && vector.expect["content_hash"].is_string() && !vector.group_hashes.is_empty());
        for (way, pairs) in [Way::Put, Way::Session].into_iter().zip(&mut pairs) {
            check_accepted(pairs, vector, way, &mut rng).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_checkpoints_are_taken_and_given_back_1_of_4() {
    accepted(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_checkpoints_are_taken_and_given_back_2_of_4() {
    accepted(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_checkpoints_are_taken_and_given_back_3_of_4() {
    accepted(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_checkpoints_are_taken_and_given_back_4_of_4() {
    accepted(3).await;
}

async fn negative(way: Way) {
    let vectors = vectors("checkpoint-negative");
    assert_eq!(vectors.len(), 194);
    let (mut rng, mut pairs) = (Rng::new(4), Pairs::default());
    let server = TestServer::start().await;
    let (mut accepted, mut refused, mut expectations) = (0, 0, 0);
    for vector in &vectors {
        if vector.accepted() {
            check_accepted(&mut pairs, vector, way, &mut rng).await;
            accepted += 1;
        } else if vector.expected_hash.is_some() {
            check_expectation(vector, way, &mut rng).await;
            expectations += 1;
        } else {
            check_refused(&server, vector, way, &mut rng).await;
            refused += 1;
        }
    }
    assert_eq!((accepted, refused, expectations), (12, 180, 2));
    // After all that, the same server still takes what is right.
    server.api.store(&CheckpointBuilder::new(4).build()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_refusals_by_put() {
    negative(Way::Put).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_refusals_by_session() {
    negative(Way::Session).await;
}

/// One checkpoint in files of any number and layout is one artifact, and whoever comes second gets what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_checkpoint_in_many_layouts_is_one_artifact() {
    let server = TestServer::start().await;
    let api = &server.api;
    let builder = || CheckpointBuilder::sized(5, 40_000, 11);
    let first = builder().shards(3).build();
    api.store(&first).await;
    let others = [builder(), builder().shards(2), builder().shards(7), builder().shards(4).shuffled().index()];
    for other in others.map(|other| other.set("created_at", "2020-02-29T00:00:00Z").build()) {
        assert_eq!(other.content_hash, first.content_hash);
        assert_eq!(api.push(&other).await.status, 200);
        assert_eq!(api.store_by_session(&other).await.status, 200);
        api.check(&first).await;
    }
    // These lie outside of the hash too, but may not be changed by a second upload.
    let arch = json!({"d": 8, "depth": 1, "num_heads": 2, "num_tokens": 4, "in_channels": 3, "num_frames": 2,
        "image_size": 4, "patch_size": 2, "tubelet": 2, "mlp_ratio": 4.0, "wmcp_version": "wmcp-1.0.0"});
    for (field, value) in [("model_arch", arch), ("config_hash", json!("ab".repeat(32)))] {
        let other = builder().set(field, value).build();
        assert_eq!(other.content_hash, first.content_hash);
        for answer in [api.push(&other).await, api.open(other.header.clone()).await] {
            let problem = answer.refused(409, "checkpoint_integrity");
            assert_eq!(problem["fields"]["differing_fields"], json!([field]), "{problem}");
        }
    }
    data::assert_no_orphans(server.dir()).await;
    assert_eq!(data::number(server.dir(), data::ARTIFACTS).await, 1);
    assert_eq!(data::number(server.dir(), data::BLOB_ROWS).await, 3);
}
