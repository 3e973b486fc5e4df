//! Quantities as people type them.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| softtimers_cli::properties::units(text));
