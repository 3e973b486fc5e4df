//! Recordings of anybody: pcap, pcapng and lines of text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| softtimers_cli::properties::recording(bytes));
