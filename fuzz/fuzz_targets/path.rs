//! A path that is offered and set anything: it adds up, however often one looks.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (seed, script) = input.split_first().map_or((0, input), |(seed, script)| (u64::from(*seed), script));
    softtimers_wan::properties::direction(seed, &script[..script.len().min(4_000)]);
});
