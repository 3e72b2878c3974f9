//! What surrounds every request.

mod request_id;
mod trace;

pub use request_id::{RequestId, request_id};
pub use trace::trace;
