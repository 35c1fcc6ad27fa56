//! libFuzzer's entry: see `fuzz::history`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::history::run(bytes));
