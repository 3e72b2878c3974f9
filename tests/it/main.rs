//! The program as its users meet it: over HTTP, on real sockets and real files, against the golden vectors.

mod support;

mod golden_http;
mod hostile;
mod reading;
mod sessions;
