//! The header of a checkpoint.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::checks::header(data));
