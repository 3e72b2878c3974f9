//! The public probe, cut in two places.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let cut = data.first().map_or(0, |byte| usize::from(*byte));
    cairn_fuzz::documents::probe(data, cut);
});
