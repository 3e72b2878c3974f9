//! The server is killed at random moments while clients push: what it has acknowledged is there, whole, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use tokio::sync::{Mutex, RwLock};

use crate::support::checkpoint::{Checkpoint, CheckpointBuilder};
use crate::support::client::{Api, try_send};
use crate::support::data;
use crate::support::process::ServerProcess;
use crate::support::rng::Rng;
use crate::support::wait::soon;

/// Uploads in all, and the time after which none is begun any more.
const UPLOADS: usize = 200;
const TIME: Duration = Duration::from_secs(30);
const CLIENTS: usize = 4;

struct Shared {
    server: RwLock<ServerProcess>,
    acknowledged: Mutex<Vec<Checkpoint>>,
    begun: AtomicUsize,
    resumed: AtomicUsize,
    over: AtomicBool,
}

impl Shared {
    /// The server as it is now; waits while it is down.
    async fn api(&self) -> Api {
        self.server.read().await.api.clone()
    }
}

/// Sizes from 0.1 to 8 MiB, the small ones more often.
fn checkpoint(rng: &mut Rng) -> Checkpoint {
    let bytes = (100 << 10) << rng.below(7);
    let bytes = rng.between(bytes, bytes * 5 / 4);
    let builder = CheckpointBuilder::sized(rng.next(), bytes, rng.between(2, 20));
    match rng.below(4) {
        0 => builder.shards(2).shuffled().index().build(),
        1 => builder.shards(2).build(),
        2 => builder.shuffled().build(),
        _ => builder.build(),
    }
}

/// Sends the archive until the server has acknowledged it.
async fn put(shared: &Shared, checkpoint: &Checkpoint) {
    loop {
        let api = shared.api().await;
        let request = api.request(reqwest::Method::PUT, &checkpoint.path());
        if let Ok(answer) = try_send(request.header("content-type", "application/x-tar").body(checkpoint.tar())).await {
            assert!(answer.status.is_success(), "{}", answer.text());
            return;
        }
    }
}

/// Pushes until the server has acknowledged it, however often it dies.
async fn push(shared: &Shared, checkpoint: &Checkpoint, by_session: bool, rng: &mut Rng) {
    if !by_session {
        return put(shared, checkpoint).await;
    }
    let session = loop {
        let api = shared.api().await;
        let request = api.request(reqwest::Method::POST, "/v1/uploads").body(checkpoint.header.clone());
        if let Ok(answer) = try_send(request).await {
            break answer.expect(StatusCode::CREATED).header("location").to_owned();
        }
    };
    for (name, bytes) in &checkpoint.files {
        let mut acknowledged = 0;
        let mut interrupted = false;
        while acknowledged < bytes.len() {
            let api = shared.api().await;
            if interrupted {
                let path = format!("{session}/files/{name}");
                let Ok(answer) = try_send(api.request(reqwest::Method::HEAD, &path)).await else { continue };
                let told: usize = answer.expect(StatusCode::OK).header("upload-offset").parse().unwrap();
                assert!(told >= acknowledged && told <= bytes.len(), "{told} after {acknowledged} was acknowledged");
                shared.resumed.fetch_add(usize::from(told > 0), Ordering::Relaxed);
                acknowledged = told;
                interrupted = false;
                continue;
            }
            let end = bytes.len().min(acknowledged + rng.between(1, 2 << 20) as usize);
            let request =
                api.patch_request(&session, name, acknowledged as u64).body(bytes[acknowledged..end].to_vec());
            match try_send(request).await {
                // The server may have lived long enough to take the bytes, but not to say so.
                Ok(answer) if answer.status == StatusCode::CONFLICT => interrupted = true,
                Ok(answer) => {
                    let told = answer.expect(StatusCode::NO_CONTENT).header("upload-offset").to_owned();
                    assert_eq!(told, end.to_string());
                    acknowledged = end;
                }
                Err(_) => interrupted = true,
            }
        }
    }
    loop {
        let api = shared.api().await;
        if let Ok(answer) = try_send(api.request(reqwest::Method::POST, &format!("{session}/finish"))).await {
            assert!(answer.status.is_success(), "{}", answer.text());
            return;
        }
    }
}

async fn client(shared: Arc<Shared>, mut rng: Rng) {
    let start = Instant::now();
    while start.elapsed() < TIME && shared.begun.fetch_add(1, Ordering::Relaxed) < UPLOADS {
        let checkpoint = checkpoint(&mut rng);
        let by_session = rng.below(2) == 0;
        push(&shared, &checkpoint, by_session, &mut rng).await;
        shared.acknowledged.lock().await.push(checkpoint);
    }
}

/// Everything that is visible verifies, and everything acknowledged is visible.
async fn check(api: &Api, server: &ServerProcess, acknowledged: &[Checkpoint], deep: bool) {
    let visible = data::texts(server.dir(), "select content_hash from artifacts").await;
    for checkpoint in acknowledged {
        assert!(visible.contains(&checkpoint.content_hash), "{} was acknowledged and is gone", checkpoint.content_hash);
    }
    if deep {
        for hash in &visible {
            api.verify(&format!("/v1/artifacts/{hash}"), "").await.expect(StatusCode::OK);
        }
        for checkpoint in acknowledged {
            api.check(checkpoint).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_nothing_that_was_acknowledged_and_show_nothing_that_was_not() {
    let mut rng = Rng::printed("kills");
    let shared = Arc::new(Shared {
        // Checkpoints of progress every MiB, so that kills in the middle of a body leave something to resume.
        server: RwLock::new(ServerProcess::start_with(&[("CAIRN_UPLOAD__CHECKPOINT_BYTES", "1048576")])),
        acknowledged: Mutex::default(),
        begun: AtomicUsize::new(0),
        resumed: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(client(Arc::clone(&shared), Rng::new(rng.next())))).collect();
    let killer = {
        let shared = Arc::clone(&shared);
        let mut rng = Rng::new(rng.next());
        tokio::spawn(async move {
            let mut kills = 0;
            while !shared.over.load(Ordering::Relaxed) {
                // The random moment is the point here; nothing waits for this.
                tokio::time::sleep(Duration::from_millis(rng.between(30, 900))).await;
                let mut server = shared.server.write().await;
                server.kill();
                server.resume();
                kills += 1;
                let acknowledged = shared.acknowledged.lock().await;
                check(&server.api, &server, &acknowledged, false).await;
            }
            kills
        })
    };
    for client in clients {
        // A client takes its time, and one more upload at most.
        soon("a client", soon("a client", client)).await.unwrap();
    }
    shared.over.store(true, Ordering::Relaxed);
    let kills = soon("the killer", killer).await.unwrap();
    let mut server = shared.server.write().await;
    server.kill();
    server.resume();
    let acknowledged = shared.acknowledged.lock().await;
    let resumed = shared.resumed.load(Ordering::Relaxed);
    println!("{} uploads, {kills} kills, {resumed} files resumed from the middle", acknowledged.len());
    assert!(acknowledged.len() >= 20 && kills >= 10, "{} uploads, {kills} kills", acknowledged.len());
    check(&server.api, &server, &acknowledged, true).await;
    // Every session of a client has ended, so the artifacts' files are all that is left.
    data::assert_no_orphans(server.dir()).await;
    assert_eq!(data::number(server.dir(), data::STAGED).await, 0);
    assert_eq!(data::number(server.dir(), "select count(*) from uploads where state = 'refused'").await, 0);
}

/// Killed between the steps of one upload, each time at another step, with the bytes in the middle of a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_any_two_steps_of_a_session_costs_nothing_acknowledged() {
    let mut server = ServerProcess::start();
    let mut rng = Rng::new(1);
    for seed in 0..3 {
        let builder = CheckpointBuilder::sized(seed, 700_000, 7).shards(2);
        let checkpoint = if seed == 1 { builder.shuffled().build() } else { builder.build() };
        let session = server.api.session(&checkpoint.header).await;
        for (name, bytes) in &checkpoint.files {
            let mut at = 0;
            while at < bytes.len() {
                server.kill();
                server.resume();
                assert_eq!(server.api.offset(&session, name).await, at as u64);
                let end = bytes.len().min(at + rng.between(1, 300_000) as usize);
                server.api.append(&session, name, bytes, at, end).await;
                at = end;
            }
        }
        server.kill();
        server.resume();
        server.api.get(&checkpoint.path()).await.refused(404, "registry_not_found");
        assert_eq!(server.api.finish(&session).await.status, 201);
        server.kill();
        server.resume();
        assert_eq!(server.api.finish(&session).await.status, 200);
        server.api.check(&checkpoint).await;
    }
    data::assert_no_orphans(server.dir()).await;
}
