//! The audit of a run: a machine that is fed what somebody holds of it, in order, and says what does not agree.
//!
//! The server feeds it rows and files, a client what it has downloaded; both draw the same conclusions. It keeps a
//! few hundred bytes for each round in memory.
//!
//! Reading order: [`finding`] (what can be found), [`facts`] (what it is fed), [`auditor`] (the machine),
//! [`news`] (the part of it that reads events), [`report`] (what it came to).

pub mod auditor;
pub mod facts;
pub mod finding;
pub mod news;
pub mod report;

pub use auditor::Auditor;
pub use facts::{
    ArtifactFacts, CommitmentFacts, Divergence, EventFacts, FileFacts, LedgerFacts, Presence, RoundFacts, RunFacts,
};
pub use finding::{AuditCode, Finding, Severity, Tier};
pub use report::Report;
