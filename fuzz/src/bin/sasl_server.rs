//! libFuzzer's entry: see `fuzz::sasl::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::sasl::server::run(bytes));
