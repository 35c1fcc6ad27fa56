//! libFuzzer's entry: see `fuzz::proofs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::proofs::run(bytes));
