//! libFuzzer's entry: see `fuzz::access`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::access::rules(bytes));
