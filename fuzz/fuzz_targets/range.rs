//! The `Range` header: eight bytes of size, then the text.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((size, text)) = data.split_first_chunk()
        && let Ok(text) = std::str::from_utf8(text)
    {
        cairn_fuzz::checks::range(text, u64::from_le_bytes(*size));
    }
});
