//! The program as its users meet it: over HTTP, on real sockets and real files, against the golden vectors.

mod support;

mod crash;
mod golden_http;
mod hostile;
mod memory;
mod reading;
mod sessions;
