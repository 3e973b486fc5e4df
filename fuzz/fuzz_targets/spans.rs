//! Many timers, with handles and with keys, against a map.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("spans", input));
