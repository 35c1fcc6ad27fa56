//! libFuzzer's entry: see `fuzz::worker`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::worker::run(bytes));
