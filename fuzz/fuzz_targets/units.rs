//! Quantities and patterns as people type them.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    softtimers_cli::properties::units(text);
    softtimers_cli::properties::pattern(text);
});
