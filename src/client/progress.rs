//! What an operation tells while it runs. How that is shown is not decided here.

/// What is being done with the bytes that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Files are read and hashed here.
    Verify,
    /// Bytes go to the server.
    Send,
    /// The server reads back what arrived out of order.
    Finish,
    /// Bytes come from the server.
    Receive,
    /// Rounds are checked; rounds are counted, not bytes.
    Audit,
}

/// Listens to an operation. Called from several threads.
pub trait Progress: Send + Sync {
    /// A phase of `total` bytes begins, of which `done` are behind us already.
    fn begin(&self, phase: Phase, total: u64, done: u64);
    /// The current phase stands at `done` bytes; this may fall when a file has to be fetched anew.
    fn at(&self, done: u64);
    /// Something that a person may want to know.
    fn note(&self, text: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: Phase, _: u64, _: u64) {}
    fn at(&self, _: u64) {}
    fn note(&self, _: &str) {}
}
