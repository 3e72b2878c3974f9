//! The accept loop.

use std::{convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
};
use tower::ServiceExt as _;

use super::{linger::Limits, request, transport::Conn, wire::Wire};

/// The most that the head of a request may take.
const MAX_HEAD: usize = 64 << 10;

/// How long to wait after the system has refused a connection, most often for want of file descriptors.
const BACK_OFF: Duration = Duration::from_millis(200);

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a client has for the whole head of its next request, from the end of the last answer on. So it is also
    /// how long a connection may be idle.
    pub head: Duration,
    /// How long a client may take nothing of an answer.
    pub stall: Duration,
    /// How long to wait for more from a client that was answered before it had sent all of its request.
    pub linger_idle: Duration,
    /// How long such a client is read out at most.
    pub linger_total: Duration,
    /// How many bytes of such a client are read out at most.
    pub linger_bytes: u64,
    /// How long requests may take to finish once the server shuts down.
    pub grace: Duration,
    /// The largest piece in which a request's body reaches its handler.
    pub frame: usize,
    /// Whether requests carry a [`Wire`], so that files are sent by `sendfile`.
    pub sendfile: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            head: Duration::from_mins(1),
            stall: Duration::from_mins(1),
            linger_idle: Duration::from_secs(5),
            linger_total: Duration::from_secs(30),
            linger_bytes: 4 << 30,
            grace: Duration::from_secs(30),
            frame: 512 << 10,
            sendfile: true,
        }
    }
}

/// Serves a router on a listener until `shutdown` is ready and the requests in flight are answered.
///
/// Each request carries [`ConnectInfo`] with the client's address and, unless switched off, a [`Wire`] in its extensions.
///
/// # Errors
///
/// None at present: what fails is either one connection or passes.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.head)
        .max_header_size(MAX_HEAD)
        .max_buf_size(options.frame.max(MAX_HEAD))
        // The queue strategy: bodies reach the transport by pointer. See the module's documentation.
        .writev(true);
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            (stream, peer) = accept(&listener) => {
                let connection = connect(&http, stream, peer, router.clone(), &options);
                let connection = graceful.watch(connection);
                tasks.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%peer, error = &error as &dyn std::error::Error, "a connection failed");
                    }
                });
            }
            Some(ended) = tasks.join_next() => report(ended),
        }
    }
    drop(listener);
    tracing::debug!(connections = tasks.len(), "shutting down");
    if tokio::time::timeout(options.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "dropping connections that did not finish in time");
    }
    tasks.abort_all();
    while let Some(ended) = tasks.join_next().await {
        report(ended);
    }
    Ok(())
}

/// Sets up one connection.
fn connect(
    http: &http1::Builder,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: &Options,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> + Send + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let wire = Wire::new();
    let limits = Limits { idle: options.linger_idle, total: options.linger_total, bytes: options.linger_bytes };
    let transport = Conn::new(stream, wire.clone(), options.stall, limits);
    let sendfile = options.sendfile;
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request: Request<Body> = request::track(request, &wire);
        request.extensions_mut().insert(ConnectInfo(peer));
        if sendfile {
            request.extensions_mut().insert(wire.clone());
        }
        let answer = router.clone().oneshot(request);
        let wire = wire.clone();
        async move { answer.await.map(|response| request::announce(response, &wire)) as Result<_, Infallible> }
    });
    http.serve_connection(TokioIo::new(transport), service)
}

/// Accepts the next connection, whatever comes between.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        let error = match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        match error.kind() {
            // These concern the one connection that was about to be accepted.
            io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused => {}
            // These go on until somebody gives something back, and the listener stays ready all the while.
            _ => {
                tracing::error!(%error, "cannot accept a connection");
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}

/// A handler that panics takes its connection with it, and is to be heard of.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection panicked");
    }
}
