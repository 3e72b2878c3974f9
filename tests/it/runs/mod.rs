//! Runs, rounds, ledgers and documents from the outside: what coordinators, participants and auditors can rely on.

mod aborts;
mod chains;
mod commits;
mod documents;
mod events;
mod federated;
mod golden;
mod hostile;
mod joining;
mod ledger;
mod probes;
mod racing;
mod recovery;
mod register;
mod waiting;
