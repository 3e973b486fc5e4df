//! Files that `capture` writes: any frames, read again, and truncated files.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_program::properties::run("captured", input));
