//! What others see while an artifact is on its way: nothing, and then all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder, sha256};
use crate::support::client::Api;
use crate::support::process::ServerProcess;
use crate::support::raw::Raw;
use crate::support::server::TestServer;
use crate::support::wait::until;

/// Reads by turns whatever could be visible too early, until told to stop; counts the answers that were whole.
async fn watch(api: Api, checkpoint: Arc<Checkpoint>, over: Arc<AtomicBool>, early: Arc<AtomicUsize>) -> usize {
    let path = checkpoint.path();
    let (name, bytes) = &checkpoint.files[0];
    let (group, data) = &checkpoint.groups[0];
    let expected: Vec<(String, Option<&[u8]>)> = vec![
        (path.clone(), None),
        (format!("{path}/header.json"), Some(&checkpoint.header)),
        (format!("{path}/files/{name}"), Some(bytes)),
        (format!("{path}/groups/{group}.safetensors"), Some(data)),
        (format!("/v1/params/{}", sha256(data)), Some(data)),
        (format!("{path}/archive.tar"), None),
        (format!("{path}/lineage"), None),
    ];
    let mut whole = 0;
    for (path, body) in expected.iter().cycle() {
        if over.load(Ordering::SeqCst) && whole > expected.len() {
            break;
        }
        let answer = api.get(path).await;
        if answer.status == 404 {
            assert_eq!(whole, 0, "{path} was there and is gone");
            early.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(body.is_none_or(|body| answer.body == body), "{path} is visible and not whole");
        whole += 1;
    }
    whole
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_appears_at_once_and_whole() {
    let server = TestServer::start().await;
    for (seed, by_session) in [(1, false), (2, true)] {
        let checkpoint = Arc::new(CheckpointBuilder::sized(seed, 4 << 20, 30).shards(2).shuffled().build());
        let (over, early) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let watcher = tokio::spawn(watch(server.api.clone(), checkpoint.clone(), over.clone(), early.clone()));
        let looked = || async { (early.load(Ordering::SeqCst) > 7).then_some(()) };
        until("a look at every path before the upload", looked).await;
        let answer = if by_session {
            server.api.store_by_session(&checkpoint).await
        } else {
            server.api.push(&checkpoint).await
        };
        assert_eq!(answer.status, 201, "{}", answer.text());
        over.store(true, Ordering::SeqCst);
        assert!(crate::support::wait::soon("the watcher", watcher).await.unwrap() > 7);
    }
}

/// SIGTERM: the request in flight is finished, the process ends well, and nothing else is taken meanwhile.
#[tokio::test]
async fn a_server_that_is_asked_to_stop_finishes_what_it_has_begun() {
    let mut server = ServerProcess::start();
    let checkpoint = CheckpointBuilder::sized(3, 300_000, 3).build();
    let tar = checkpoint.tar();
    let address = server.api.base.strip_prefix("http://").unwrap().to_owned();
    let mut client = Raw::connect(&address).await;
    client
        .send(format!("PUT {} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", checkpoint.path(), tar.len()))
        .await;
    client.send(&tar[..100_000]).await;
    until("the bytes on the disk", || async { (!crate::support::data::blobs(server.dir()).is_empty()).then_some(()) })
        .await;
    server.terminate();
    until("the listener to close", || async { tokio::net::TcpStream::connect(&address).await.err() }).await;
    assert!(server.ended().is_none(), "the server did not wait");
    client.send(&tar[100_000..]).await;
    assert_eq!(client.answer().await.unwrap().status, 201);
    let server = std::sync::Mutex::new(server);
    let status = until("the process to end", || async { server.lock().unwrap().ended() }).await;
    assert_eq!(status.code(), Some(0));
    let mut server = server.into_inner().unwrap();
    server.resume();
    server.api.check(&checkpoint).await;
}
