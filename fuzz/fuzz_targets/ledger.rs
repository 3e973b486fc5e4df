//! A receiver's account of any sequence of datagrams from anybody.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("ledger", input));
