//! Programs of `--filter-code`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("filter_code", input));
