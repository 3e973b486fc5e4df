//! Many timers, with handles and with keys, against the map that the property tests of core use.

#[path = "../../../crates/core/tests/model/spans.rs"]
mod model;

pub(crate) fn many(input: &[u8]) {
    let [span, most, operations, choices @ ..] = input else { return };
    let first_generation = if span % 2 == 0 { 1 } else { u32::MAX - 3 };
    let operations = 1 + u64::from(*operations) * 4;
    let mut timers = model::Spans::new(choices, input.len() as u64, first_generation);
    timers.run(operations, 1 + u64::from(*most), 50 << (span % 35));
}
