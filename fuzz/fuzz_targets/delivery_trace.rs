//! Recorded capacity of anybody, in the format of mahimahi.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| softtimers_wan::properties::trace(file));
