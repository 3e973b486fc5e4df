//! Quantities, patterns, parts and parameters as typed.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    softtimers_corpora::run("units", input);
    softtimers_program::properties::run("units", input);
});
