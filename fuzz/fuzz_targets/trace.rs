//! Recordings from any source: pcap, pcapng and lines of text.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| softtimers_corpora::run("trace", input));
