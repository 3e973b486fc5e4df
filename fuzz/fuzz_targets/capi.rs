//! Any sequence of calls of the C interface, under AddressSanitizer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| softtimers_capi::sequences::run(bytes));
