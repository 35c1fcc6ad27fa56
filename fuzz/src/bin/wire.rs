//! libFuzzer's entry: see `fuzz::messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::messages::run(bytes));
