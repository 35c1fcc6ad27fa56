//! libFuzzer's entry: see `fuzz::sasl::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::sasl::client::run(bytes));
