//! A server to test against, and a client that does exactly what it is told.

use std::{future::Future, io::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Extension, Router, body::Body, routing::get};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
};

use super::super::{BeforeLast, Options, Segment, Wire, body, serve};

pub(super) const MIB: usize = 1 << 20;

/// Fails a test that hangs. Nothing is measured by it.
pub(super) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), work).await.expect("the test hangs")
}

/// A running server. It is told to shut down when this is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) ended: JoinHandle<std::io::Result<()>>,
}

pub(super) async fn start(router: Router, options: Options) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let ended = tokio::spawn(serve(listener, router, options, shutdown));
    Server { address, stop: Some(stop), ended }
}

/// Bytes that are no zeros, and that repeat at no distance that a window could be off by.
pub(super) fn noise(len: usize) -> Vec<u8> {
    const PERIOD: usize = 1_000_003;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len.min(PERIOD) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(PERIOD);
    while bytes.len() < len {
        bytes.extend_from_within(..bytes.len().min(len - bytes.len()));
    }
    bytes.truncate(len);
    bytes
}

/// A file and what is in it.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) file: Arc<std::fs::File>,
    pub(super) bytes: Arc<Vec<u8>>,
}

pub(super) fn stored(len: usize) -> Stored {
    let bytes = noise(len);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    Stored { file: Arc::new(file), bytes: Arc::new(bytes) }
}

impl Stored {
    pub(super) fn part(&self, offset: usize, len: usize) -> Segment {
        Segment::File { file: Arc::clone(&self.file), offset: offset as u64, len: len as u64 }
    }

    pub(super) fn whole(&self) -> Segment {
        self.part(0, self.bytes.len())
    }

    /// A router that serves the file at `/`, with checks from `before_last`.
    pub(super) fn router(
        &self,
        before_last: impl Fn() -> Option<BeforeLast> + Clone + Send + Sync + 'static,
    ) -> Router {
        let stored = self.clone();
        let answer = async move |wire: Option<Extension<Wire>>| {
            body(wire.map(|wire| wire.0), vec![stored.whole()], before_last())
        };
        Router::new().route("/", get(answer))
    }
}

pub(super) fn no_check() -> Option<BeforeLast> {
    None
}

/// Tells when it is dropped.
pub(super) struct Tells(pub(super) Arc<Notify>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A check that tells when the body it belongs to is dropped.
pub(super) fn tells_drop(told: &Arc<Notify>) -> BeforeLast {
    let tells = Tells(Arc::clone(told));
    Box::new(move || {
        drop(tells);
        Ok(())
    })
}

pub(super) struct Client(pub(super) TcpStream);

/// The head of an answer.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) length: usize,
}

impl Client {
    pub(super) async fn connect(server: &Server) -> Self {
        Self(TcpStream::connect(server.address).await.unwrap())
    }

    /// A client whose kernel takes little of what it does not read.
    pub(super) async fn connect_narrow(server: &Server) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        Self(socket.connect(server.address).await.unwrap())
    }

    pub(super) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    pub(super) async fn get(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n")).await;
    }

    pub(super) async fn head(&mut self) -> Head {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(self.0.read_u8().await.expect("the head of an answer"));
        }
        let text = String::from_utf8(text).unwrap().to_lowercase();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let length = length.map_or(0, |length| length.parse().unwrap());
        Head { status, text, length }
    }

    pub(super) async fn exactly(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    pub(super) async fn answer(&mut self) -> (Head, Vec<u8>) {
        let head = self.head().await;
        let body = self.exactly(head.length).await;
        (head, body)
    }

    /// What comes until the connection ends, however that is.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = self.0.read_to_end(&mut bytes).await;
        bytes
    }
}

/// Compares without printing megabytes.
#[track_caller]
pub(super) fn same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len());
    if found == expected {
        return;
    }
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    panic!("differs from byte {differs:?} on");
}

/// Collects a body without a server.
#[expect(clippy::disallowed_methods, reason = "the bodies of these tests are small")]
pub(super) async fn collect(body: Body) -> Result<Vec<u8>, axum::Error> {
    Ok(http_body_util::BodyExt::collect(body).await?.to_bytes().to_vec())
}
