//! Any sequence of calls of the C interface, under AddressSanitizer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("capi", input));
