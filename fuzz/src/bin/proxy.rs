//! libFuzzer's entry: see `fuzz::proxies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::proxies::run(bytes));
