//! The layer as a whole, over real sockets.

mod answers;
mod closing;
mod failures;
mod guards;
mod support;
