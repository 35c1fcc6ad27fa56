//! libFuzzer's entry: see `fuzz::door`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::door::run(bytes));
