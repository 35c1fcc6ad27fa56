//! libFuzzer's entry: see `fuzz::rules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::rules::run(bytes));
