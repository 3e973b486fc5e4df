//! What `sim --sweep` takes, one line each.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("sim_sweep", input));
