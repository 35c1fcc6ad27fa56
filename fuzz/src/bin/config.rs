//! libFuzzer's entry: see `fuzz::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::configuration::run(bytes));
