//! `--assert` expressions.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| softtimers_cli::properties::assertion(text));
