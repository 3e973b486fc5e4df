//! A path that is offered and set anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("path", input));
