//! Documents, registrations, proofs and locators.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::documents::document(data));
