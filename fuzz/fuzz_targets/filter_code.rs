//! Programs of `--filter-code`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("filter_code", input));
