//! Files of rules for `forward`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| softtimers_cli::properties::rules(text));
