//! Lines that reach the control socket of `wan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("control", input));
