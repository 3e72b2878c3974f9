//! What a restarted server makes of a session: it goes on where it was, and believes nothing that somebody touched.

use std::fs;

use reqwest::StatusCode;

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, SINGLE};
use crate::support::data;
use crate::support::rng::Rng;
use crate::support::server::TestServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_between_any_two_steps_changes_nothing() {
    let mut server = TestServer::start().await;
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let checkpoint = match seed {
            0 => CheckpointBuilder::sized(seed, 200_000, 6).build(),
            1 => CheckpointBuilder::sized(seed, 200_000, 6).shards(3).index().build(),
            2 => CheckpointBuilder::sized(seed, 200_000, 6).shards(3).shuffled().build(),
            _ => CheckpointBuilder::random(21).build(),
        };
        let session = server.api.session(&checkpoint.header).await;
        server.restart().await;
        // One step at a time, of a file that is not complete yet, chosen at random.
        let mut at = vec![0; checkpoint.files.len()];
        loop {
            let open: Vec<usize> =
                (0..at.len()).filter(|index| at[*index] < checkpoint.files[*index].1.len()).collect();
            if open.is_empty() {
                break;
            }
            let index = open[rng.below(open.len() as u64) as usize];
            let (name, bytes) = &checkpoint.files[index];
            assert_eq!(server.api.offset(&session, name).await, at[index] as u64);
            let step = rng.between(1, bytes.len() as u64 * 2 / 3) as usize;
            let end = bytes.len().min(at[index] + step);
            server.api.append(&session, name, bytes, at[index], end).await;
            at[index] = end;
            server.restart().await;
        }
        assert_eq!(server.api.finish(&session).await.status, 201, "seed {seed}");
        server.restart().await;
        assert_eq!(server.api.finish(&session).await.status, 200);
        server.api.check(&checkpoint).await;
    }
    data::assert_no_orphans(server.dir()).await;
}

/// A session of which both files have arrived in part, with the server stopped.
async fn half_sent(seed: u64) -> (TestServer, Checkpoint, String) {
    let mut server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::sized(seed, 90_000, 8).shards(2).build();
    let session = server.api.session(&checkpoint.header).await;
    for (name, bytes) in &checkpoint.files {
        server.api.append(&session, name, bytes, 0, 30_000).await;
    }
    server.stop().await;
    (server, checkpoint, session)
}

/// Sends what the server says is missing.
async fn send_the_rest(server: &TestServer, checkpoint: &Checkpoint, session: &str) {
    for (name, bytes) in &checkpoint.files {
        let mut at = server.api.offset(session, name).await;
        let answer = server.api.patch(session, name, at, bytes[at as usize..].to_vec()).await;
        if answer.status == StatusCode::CONFLICT {
            at = answer.header("upload-offset").parse().unwrap();
            server.api.append(session, name, bytes, at as usize, bytes.len()).await;
        } else {
            answer.expect(StatusCode::NO_CONTENT);
        }
    }
}

#[tokio::test]
async fn hash_states_that_do_not_fit_are_computed_again() {
    const DAMAGES: [&[&str]; 7] = [
        &["update upload_files set digest_state = null", "update uploads set walks = null"],
        &["update upload_files set digest_state = bytes('')", "update uploads set walks = bytes('')"],
        &["update upload_files set digest_state = noise(digest_state)"],
        &["update uploads set walks = noise(walks)"],
        &["update uploads set walks = bytes(replace(text(walks), '1', '2'))"],
        // The right state of another file.
        &["update upload_files set digest_state = (select digest_state from upload_files as other \
            where other.position != upload_files.position)"],
        &["update upload_files set digest_state = substr(digest_state, 1, 40)"],
    ];
    for damage in DAMAGES {
        let (mut server, checkpoint, session) = half_sent(1).await;
        for statement in damage {
            assert!(data::change(server.dir(), statement).await > 0);
        }
        server.resume().await;
        send_the_rest(&server, &checkpoint, &session).await;
        let answer = server.api.finish(&session).await;
        assert_eq!(answer.status, 201, "{damage:?}: {}", answer.text());
        server.api.check(&checkpoint).await;
    }
}

/// One bit in what was stored: in the element bytes, in the length field, in the JSON.
#[tokio::test]
async fn staged_bytes_that_change_are_never_accepted() {
    for at in [29_999, 25_000, 0, 8, 20] {
        for server_is_up in [false, true] {
            let (mut server, checkpoint, session) = half_sent(2).await;
            if server_is_up {
                server.resume().await;
                assert_eq!(server.api.get(&session).await.status, 200);
            }
            let staged = data::blobs(server.dir());
            assert_eq!(staged.len(), 2);
            data::flip(&staged[0], at);
            if !server_is_up {
                server.resume().await;
            }
            let api = &server.api;
            for (name, bytes) in &checkpoint.files {
                // Refused here already when the header does not read as it did.
                let _ = api.patch(&session, name, 30_000, bytes[30_000..].to_vec()).await;
            }
            let problem = api.finish(&session).await.problem();
            let code = problem["code"].as_str().unwrap();
            assert!(["checkpoint_integrity", "artifact_invalid"].contains(&code), "{at}: {problem}");
            api.get(&checkpoint.path()).await.refused(404, "registry_not_found");
            assert_eq!(api.delete(&session).await.status, 204);
            data::assert_nothing_left(server.dir(), "the changed session").await;
            api.store(&checkpoint).await;
        }
    }
}

/// Both bits that matter: bytes were changed and the remembered state was of the right bytes. A server that trusted
/// the state would take the artifact with a wrong file.
#[tokio::test]
async fn complete_staged_bytes_that_change_before_finish_are_never_accepted() {
    for layout in [CheckpointBuilder::sized(3, 90_000, 8), CheckpointBuilder::sized(4, 90_000, 8).shuffled()] {
        let mut server = TestServer::start().await;
        let checkpoint = layout.build();
        let bytes = checkpoint.file(SINGLE);
        let session = server.api.session(&checkpoint.header).await;
        server.api.append(&session, SINGLE, bytes, 0, bytes.len()).await;
        server.stop().await;
        data::flip(&data::blobs(server.dir())[0], bytes.len() as u64 - 1);
        server.resume().await;
        server.api.finish(&session).await.refused(422, "checkpoint_integrity");
        data::assert_nothing_left(server.dir(), "the changed file").await;
    }
}

#[tokio::test]
async fn staged_files_that_are_lost_or_short_start_again() {
    for lost in [true, false] {
        let (mut server, checkpoint, session) = half_sent(5).await;
        let staged = data::blobs(server.dir());
        if lost {
            staged.iter().for_each(|path| fs::remove_file(path).unwrap());
        } else {
            staged.iter().for_each(|path| fs::File::options().write(true).open(path).unwrap().set_len(29_999).unwrap());
        }
        server.resume().await;
        send_the_rest(&server, &checkpoint, &session).await;
        assert_eq!(server.api.finish(&session).await.status, 201, "lost: {lost}");
        server.api.check(&checkpoint).await;
        // What was left of the short ones is nobody's now; the next start finds it.
        server.restart().await;
        data::assert_no_orphans(server.dir()).await;
    }
}

/// Bytes behind the acknowledged ones, as a crash leaves them, are not part of the file.
#[tokio::test]
async fn bytes_that_were_never_acknowledged_are_cut_off() {
    let (mut server, checkpoint, session) = half_sent(6).await;
    for path in data::blobs(server.dir()) {
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&[0xAB; 100_000]);
        fs::write(&path, bytes).unwrap();
    }
    server.resume().await;
    for (name, bytes) in &checkpoint.files {
        assert_eq!(server.api.offset(&session, name).await, 30_000);
        server.api.append(&session, name, bytes, 30_000, bytes.len()).await;
    }
    assert_eq!(server.api.finish(&session).await.status, 201);
    server.api.check(&checkpoint).await;
    server.api.verify(&checkpoint.path(), "").await.expect(StatusCode::OK);
    let lengths: u64 = data::blobs(server.dir()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(lengths, checkpoint.files.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
}

/// Files of no session and no artifact go at the next start, and nothing else does.
#[tokio::test]
async fn a_start_sweeps_what_nothing_refers_to() {
    let (mut server, checkpoint, session) = half_sent(7).await;
    let kept = CheckpointBuilder::new(8).build();
    server.resume().await;
    server.api.store(&kept).await;
    server.stop().await;
    for key in ["00000000000000000000000000000000", "7f3c0a51de8844b08f1d0e2a3b4c5d6e"] {
        fs::write(server.dir().join("blobs").join(&key[..2]).join(key), b"left by a crash").unwrap();
    }
    assert_eq!(data::blobs(server.dir()).len(), 5);
    server.resume().await;
    data::assert_no_orphans(server.dir()).await;
    assert_eq!(data::blobs(server.dir()).len(), 3);
    server.api.check(&kept).await;
    send_the_rest(&server, &checkpoint, &session).await;
    assert_eq!(server.api.finish(&session).await.status, 201);
}
