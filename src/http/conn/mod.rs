//! The connection layer: accept loop, transport and file bodies.
//!
//! hyper speaks HTTP/1.1 and the router is axum's, yet stored files leave by `sendfile(2)`:
//!
//! * [`serve`] accepts sockets and runs each in hyper over a `transport::Conn`, its own transport. Every request
//!   carries a [`Wire`] in its extensions, the handle of the connection that it came over.
//! * [`body`] makes a response body of [`Segment`]s. With a `Wire` it queues each window of a file at the connection
//!   and gives hyper a *placeholder* of the same length. Without one (a router called in a test) it reads the file.
//! * hyper's queue strategy (`writev(true)`) hands the placeholder to `poll_write_vectored` by pointer and uncopied.
//!   The transport knows it by its address, and sends the file instead.
//!
//! A placeholder must never leave as data. `wire.rs` says what guards that. In every case of doubt the connection
//! breaks, so that a client sees a short answer, never a wrong one. A middleware must therefore not look into the bytes
//! of a body that was made with a `Wire` (compression, digests): it would break the connection.

mod body;
mod linger;
mod pages;
mod request;
mod serve;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

pub use body::{BeforeLast, Segment, body};
pub use serve::{Options, serve};
pub use wire::Wire;
