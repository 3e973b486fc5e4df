//! A receiver's counts of any sequence of datagrams from any sender.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("ledger", input));
