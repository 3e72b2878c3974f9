//! Stored bytes that change: refused on every route, until a push repairs them.

use std::fs::{self, File};
use std::path::Path;

use reqwest::{Method, StatusCode};

use super::resource::{Resource, checkpoint, resources};
use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, SINGLE};
use crate::support::client::{Api, send};
use crate::support::data;
use crate::support::raw::Raw;
use crate::support::server::TestServer;

#[derive(Clone, Copy, Debug)]
enum Damage {
    FirstByte,
    LastByte,
    Truncated,
    Longer,
    Deleted,
    Replaced,
    /// By a link to something else.
    Linked,
}

const DAMAGES: [Damage; 7] = [
    Damage::FirstByte,
    Damage::LastByte,
    Damage::Truncated,
    Damage::Longer,
    Damage::Deleted,
    Damage::Replaced,
    Damage::Linked,
];

impl Damage {
    fn inflict(self, path: &Path) {
        let len = path.metadata().unwrap().len();
        match self {
            Self::FirstByte => data::flip(path, 0),
            Self::LastByte => data::flip(path, len - 1),
            Self::Truncated => File::options().write(true).open(path).unwrap().set_len(0).unwrap(),
            Self::Longer => File::options().write(true).open(path).unwrap().set_len(len + 1).unwrap(),
            Self::Deleted => fs::remove_file(path).unwrap(),
            Self::Replaced => {
                let mut bytes = fs::read(path).unwrap();
                bytes.reverse();
                fs::remove_file(path).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Self::Linked => {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
            }
        }
    }
}

/// The stored file that holds these bytes.
fn stored(dir: &Path, bytes: &[u8]) -> std::path::PathBuf {
    data::blobs(dir).into_iter().find(|path| fs::read(path).unwrap() == bytes).unwrap()
}

/// Asks in every way in which bytes can be asked for.
async fn answers(api: &Api, path: &str, tag: &str) -> Vec<(String, crate::support::client::Answer)> {
    let mut answers = Vec::new();
    for (name, value) in [("accept", "*/*"), ("range", "bytes=0-0"), ("range", "bytes=-1"), ("if-none-match", tag)] {
        for method in [Method::GET, Method::HEAD] {
            let what = format!("{method} {path} with {name}: {value}");
            answers.push((what, send(api.request(method, path).header(name, value)).await));
        }
    }
    answers
}

async fn check_refused_everywhere(api: &Api, all: &[Resource], what: &str) {
    for resource in all {
        for (request, answer) in answers(api, &resource.path, "*").await {
            if resource.stored {
                assert_eq!(answer.status, 500, "{what}: {request}");
                assert_eq!(answer.header("content-type"), "application/problem+json", "{what}: {request}");
                if !answer.body.is_empty() {
                    let problem = answer.refused(500, "checkpoint_integrity");
                    assert!(problem["remediation"].as_str().unwrap().contains("ush the artifact again"), "{problem}");
                }
            } else {
                assert!(!answer.status.is_server_error(), "{what}: {request}");
            }
        }
    }
}

async fn check_all(api: &Api, all: &[Resource], what: &str) {
    for resource in all {
        let answer = api.get(&resource.path).await;
        assert_eq!(answer.status, 200, "{what}: {} {}", resource.path, answer.text());
        assert!(answer.body == resource.bytes, "{what}: {}", resource.path);
    }
}

/// All damages to one stored file, each found by the first read and mended by a push, by turns in both ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_served_by_no_route_and_repaired_by_a_push() {
    let mut server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(1, 300_000, 5).shuffled().build();
    server.api.store(&checkpoint).await;
    let all = resources(&checkpoint);
    for (round, damage) in DAMAGES.into_iter().enumerate() {
        check_all(&server.api, &all, "before").await;
        // Both with the file open from the last read, and without.
        if round % 2 == 1 {
            server.stop().await;
        }
        damage.inflict(&data::blobs(server.dir())[0]);
        if round % 2 == 1 {
            server.resume().await;
        }
        let (api, what) = (&server.api, format!("{damage:?}"));
        api.get(&checkpoint.path()).await.refused(500, "checkpoint_integrity");
        check_refused_everywhere(api, &all, &what).await;
        api.verify(&checkpoint.path(), "").await.refused(500, "checkpoint_integrity");

        let answer = if round % 2 == 0 { api.push(&checkpoint).await } else { api.store_by_session(&checkpoint).await };
        assert_eq!(answer.status, 200, "{damage:?}: {}", answer.text());
        check_all(api, &all, &what).await;
        api.check(&checkpoint).await;
        api.verify(&checkpoint.path(), "").await.expect(StatusCode::OK);
        data::assert_no_orphans(server.dir()).await;
        assert_eq!(data::blobs(server.dir()).len(), 1, "{damage:?}");
    }
    // Never swallowed: each damage has left its record.
    assert!(data::number(server.dir(), data::AUDITS).await >= DAMAGES.len() as i64);
}

/// A push repairs even if nobody has noticed the damage yet, since it looks before it keeps what is there.
#[tokio::test]
async fn a_push_repairs_damage_that_nobody_has_read() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = checkpoint(2);
    api.store(&checkpoint).await;
    for (round, damage) in DAMAGES.into_iter().enumerate() {
        let (_, bytes) = &checkpoint.files[round % checkpoint.files.len()];
        damage.inflict(&stored(server.dir(), bytes));
        assert_eq!(api.push(&checkpoint).await.status, 200, "{damage:?}");
        check_all(api, &resources(&checkpoint), &format!("{damage:?}")).await;
        data::assert_no_orphans(server.dir()).await;
    }
}

/// A blob that two artifacts share is damaged for both and repaired for both.
#[tokio::test]
async fn damage_of_a_shared_file_is_damage_of_both_and_one_push_repairs_both() {
    let server = TestServer::start().await;
    let api = &server.api;
    let first = CheckpointBuilder::sized(3, 60_000, 8).shards(2).build();
    let second = CheckpointBuilder::sized(3, 60_000, 8).shards(2).parent(&first, 1).build();
    api.store(&first).await;
    api.store(&second).await;
    let (name, bytes) = &first.files[1];
    data::flip(&stored(server.dir(), bytes), 3);
    for checkpoint in [&first, &second] {
        api.get(&format!("{}/files/{name}", checkpoint.path())).await.refused(500, "checkpoint_integrity");
        api.get(&checkpoint.path()).await.refused(500, "checkpoint_integrity");
        let sound = api.get(&format!("{}/files/{}", checkpoint.path(), checkpoint.files[0].0)).await;
        assert!(sound.status == 200 && sound.body == checkpoint.files[0].1, "the other file is as it was");
    }
    assert_eq!(api.push(&second).await.status, 200);
    api.check(&first).await;
    api.check(&second).await;
    data::assert_no_orphans(server.dir()).await;
}

/// A parameter group that another artifact holds undamaged is still there for those who ask by its hash.
#[tokio::test]
async fn parameters_come_from_whichever_artifact_is_sound() {
    let server = TestServer::start().await;
    let api = &server.api;
    let one = CheckpointBuilder::sized(4, 60_000, 8).build();
    let other = CheckpointBuilder::sized(4, 60_000, 8).shards(2).parent(&one, 1).build();
    assert_eq!(one.groups, other.groups);
    api.store(&one).await;
    api.store(&other).await;
    let path = format!("/v1/params/{}", crate::support::checkpoint::sha256(&one.groups[0].1));
    for damaged in [&one, &other] {
        damaged.files.iter().for_each(|(_, bytes)| data::flip(&stored(server.dir(), bytes), 9));
        let answer = api.get(&path).await.expect(StatusCode::OK);
        assert!(answer.body == one.groups[0].1);
        assert_eq!(api.push(damaged).await.status, 200);
    }
    one.files.iter().chain(&other.files).for_each(|(_, bytes)| data::flip(&stored(server.dir(), bytes), 9));
    api.get(&path).await.refused(500, "checkpoint_integrity");
}

/// Nothing but the times of a file change: it is verified once more, and served.
#[tokio::test]
async fn a_touched_file_is_verified_again_and_served() {
    let mut server = TestServer::start().await;
    let checkpoint = checkpoint(5);
    server.api.store(&checkpoint).await;
    let stamps = "select stamp from blobs order by digest";
    for restarted in [false, true] {
        let before = data::texts(server.dir(), stamps).await;
        for path in data::blobs(server.dir()) {
            File::options().write(true).open(path).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        if restarted {
            server.restart().await;
        }
        check_all(&server.api, &resources(&checkpoint), "touched").await;
        assert_ne!(data::texts(server.dir(), stamps).await, before, "the new stamps are remembered");
    }
    // Bytes that came back are right again, too.
    let path = stored(server.dir(), &checkpoint.files[0].1);
    data::flip(&path, 5);
    server.api.get(&checkpoint.path()).await.refused(500, "checkpoint_integrity");
    data::flip(&path, 5);
    check_all(&server.api, &resources(&checkpoint), "restored").await;
    assert_eq!(data::number(server.dir(), "select count(*) from blobs where damaged_at is not null").await, 0);
}

/// A file that changes while it is being sent: the client sees a broken transfer, never a clean end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_under_a_transfer_breaks_the_connection() {
    let server = TestServer::start().await;
    let checkpoint: Checkpoint = CheckpointBuilder::sized(6, 48 << 20, 2).build();
    server.api.store(&checkpoint).await;
    let path = checkpoint.path();
    let routes =
        [format!("{path}/files/{SINGLE}"), format!("{path}/archive.tar"), format!("{path}/groups/encoder.safetensors")];
    for damage in [Damage::LastByte, Damage::Truncated, Damage::Deleted] {
        for route in &routes {
            let mut client = Raw::connect(server.address()).await;
            client.send(format!("GET {route} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            let mut begin = vec![0; 2000];
            tokio::io::AsyncReadExt::read_exact(&mut client.0, &mut begin).await.unwrap();
            damage.inflict(&data::blobs(server.dir())[0]);
            let answer = client.continued(begin).await;
            assert_eq!(answer.status, 200);
            assert!(!answer.whole, "{damage:?}: {route} went through");
            server.api.get(route).await.refused(500, "checkpoint_integrity");
            assert_eq!(server.api.push(&checkpoint).await.status, 200);
        }
    }
}
