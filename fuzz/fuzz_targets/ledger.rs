//! What a receiver makes of any sequence of datagrams from anybody.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| softtimers_cli::properties::ledger(bytes));
