//! Your own receive policy on HIP's simulated machine: `cargo run --manifest-path papers/Cargo.toml -p softtimers-sim --example own_policy`.
//!
//! The policy polls every 2 ms while packets come, and goes back to interrupts after three empty polls. The
//! same type runs in a program that links softtimers-net.

use std::time::Duration;

use softtimers_core::{Random, Timestamp, Trace, TraceBuilder};
use softtimers_poll::readings::Costs;
use softtimers_poll::{Hip, HipConfig, Interrupts, Look, Next, Policy, Preset};
use softtimers_sim::{Received, receive};

/// Polls at a fixed interval, and stops after some empty polls.
pub(crate) struct Patient {
    period: Duration,
    /// Empty polls in a row.
    empty: u32,
    next: Next,
}

impl Patient {
    pub(crate) fn new() -> Self {
        Patient { period: Duration::from_millis(2), empty: 3, next: Next::Armed }
    }
}

impl Policy for Patient {
    fn arrived(&mut self, _: Timestamp) {}

    fn looked(&mut self, look: &Look) -> Next {
        self.empty = if look.found > 0 { 0 } else { self.empty + 1 };
        self.next = if self.empty < 3 { Next::At(look.ended + self.period) } else { Next::Armed };
        self.next
    }

    fn next(&self) -> Next {
        self.next
    }
}

/// Trains of ten packets, a millisecond apart on average; then a pause.
pub(crate) fn packets() -> Trace {
    let mut random = Random::stream(1, 0);
    let (mut at, mut packets) = (Timestamp::ZERO, TraceBuilder::default());
    for packet in 0..5_000 {
        let mean = if packet % 10 == 0 { 20_000_000 } else { 1_000_000 };
        at += Duration::from_nanos(random.below(2 * mean));
        packets.push(at, 900);
    }
    packets.finish().expect("5,000 packets")
}

fn main() {
    let packets = packets();
    let hip = Hip::new(HipConfig::preset(Preset::Paper));
    println!("{:12} {:>12} {:>10} {:>11} {:>7}", "policy", "overhead µs", "delay µs", "interrupts", "polls");
    for (name, found) in [
        ("interrupts", receive(Interrupts, Costs::HIP, &packets)),
        ("hip", receive(hip, Costs::HIP, &packets)),
        ("patient", receive(Patient::new(), Costs::HIP, &packets)),
    ] {
        let Received { overhead_us, delay_us, interrupts, polls, .. } = found;
        println!("{name:12} {overhead_us:12.2} {delay_us:10.1} {interrupts:11} {polls:7}");
    }
}
