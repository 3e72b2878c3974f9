//! The safetensors decoder, in random cuts and beside the `safetensors` crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::checks::decoder(data));
