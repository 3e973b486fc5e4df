//! Frames that `forward` finds between two interfaces.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("frames", input));
