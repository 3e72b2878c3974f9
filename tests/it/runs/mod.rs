//! Runs, rounds, ledgers and documents from the outside: what coordinators, participants and auditors can rely on.

mod chains;
mod federated;
mod golden;
