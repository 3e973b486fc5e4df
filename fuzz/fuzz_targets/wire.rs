//! One datagram from anybody.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| softtimers_cli::properties::wire(bytes));
