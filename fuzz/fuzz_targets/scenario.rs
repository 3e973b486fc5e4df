//! Files that `wan --scenario` reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("scenario", input));
