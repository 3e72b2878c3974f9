//! Runs, rounds, ledgers and documents from the outside: what coordinators, participants and auditors can rely on.

mod aborts;
mod chains;
mod commits;
mod federated;
mod golden;
mod ledger;
mod racing;
mod register;
