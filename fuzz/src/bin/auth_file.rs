//! libFuzzer's entry: see `fuzz::auth_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::auth_file::run(bytes));
