//! Saved runs of `report --from`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("saved_run", input));
