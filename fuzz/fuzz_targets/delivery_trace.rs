//! Recorded capacity from any source, in the format of mahimahi.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("delivery_trace", input));
