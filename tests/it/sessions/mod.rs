//! Upload sessions: what a client that is cut off, restarted, impatient or wrong can rely on.

mod files;
mod finish;
mod offsets;
mod restart;
mod takeover;
mod visible;
