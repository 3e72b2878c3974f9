//! What a request tells its connection on the way in, and its answer on the way out.
//!
//! A handler may answer before it has read the request (413, 422). The transport then has to linger at the end
//! ([`super::linger`]), and the answer should say that the connection will close.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, header},
};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::wire::Wire;

/// So little left of a request is likely to be here already, so that hyper drains it and keeps the connection.
const DRAINED: u64 = 64 << 10;

/// Gives a request to axum, with its body tracked.
pub(super) fn track(request: Request<Incoming>, wire: &Wire) -> Request<Body> {
    // A client that waits to be told to go on will send nothing if it is not, and hyper will close.
    let waits = request.headers().contains_key(header::EXPECT) && !request.body().is_end_stream();
    wire.set_unread(if waits { u64::MAX } else { left(request.body()) });
    wire.set_answer(None);
    if request.body().is_end_stream() {
        return request.map(|_| Body::empty());
    }
    request.map(|incoming| Body::new(Tracked { incoming, wire: wire.clone() }))
}

/// Tells the connection which answer comes.
///
/// It says `Connection: close` if much of the request was not read, since hyper will close then.
///
/// hyper says so itself only where it knew before it wrote the head, which it does not with an early answer. A client
/// would keep a connection that is about to close, and lose its next request.
pub(super) fn announce(mut response: Response<Body>, wire: &Wire) -> Response<Body> {
    if wire.unread() > DRAINED {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    wire.set_answer(response.body().size_hint().exact());
    response
}

/// The most that is left of a request's body.
fn left(incoming: &Incoming) -> u64 {
    if incoming.is_end_stream() { 0 } else { incoming.size_hint().upper().unwrap_or(u64::MAX) }
}

struct Tracked {
    incoming: Incoming,
    wire: Wire,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        let left = if frame.is_none() { 0 } else { left(&self.incoming) };
        self.wire.set_unread(left);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
