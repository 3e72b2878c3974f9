//! The tar decoder, in random cuts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::checks::tar(data));
