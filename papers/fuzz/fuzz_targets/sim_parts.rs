//! Parts of a sweep for `sim merge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("sim_parts", input));
