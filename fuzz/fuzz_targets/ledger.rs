//! Contribution records and ledgers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::documents::ledger(data));
