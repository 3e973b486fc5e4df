//! Files that `sim --machine` reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("machine", input));
