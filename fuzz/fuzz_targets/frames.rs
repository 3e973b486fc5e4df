//! Frames that `forward` finds between two interfaces.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| softtimers_cli::properties::frame(script));
