//! A CPU limit beside a computation, on a machine where to sleep costs more than to receive.

use std::time::Duration;

use crate::simulated::{Costs, Machine, SimulatedDevice};
use softtimers_core::{Clock, Percent};
use softtimers_net::poller::Poller;
use softtimers_poll::{
    Aggregation, AggregationConfig, CpuLimitConfig, DelayBound, DelayBoundConfig, Interrupts, Policy, Quota,
    SourceConfig,
};

use super::{at, flood, micros};

/// The costs on a virtual machine: a wake-up costs 20 µs, and a timer's interrupt 16 µs more that nobody is charged
/// with.
const COSTS: Costs = Costs {
    receive_turn: Duration::from_nanos(300),
    packet: Duration::from_nanos(600),
    transmit_turn: Duration::from_nanos(300),
    arm: Duration::from_nanos(500),
    wake_up: micros(20),
    timer: [micros(20), micros(16)],
};
const POLICIES: [&str; 3] = ["interrupts", "hybrid", "poll"];
const STRETCH: Duration = micros(200);

fn policy(name: &str) -> Box<dyn Policy> {
    match name {
        "interrupts" => Box::new(Interrupts),
        "hybrid" => Box::new(DelayBound::new(DelayBoundConfig::default())),
        _ => Box::new(Aggregation::new(AggregationConfig { longest: STRETCH, ..Default::default() })),
    }
}

/// Figures of 400 ms beside a packet each `gap` ns and way: thousandths that the computation kept, packets
/// received, and times that they waited for too long.
fn beside(name: &str, gap: u64, limit: Option<u32>) -> (u64, u64, u64) {
    let clock = super::clock();
    let mut poller = Poller::on(Machine::with_costs(&clock, COSTS));
    let mut sources = Vec::new();
    for _ in 0..2 {
        let device = SimulatedDevice::new(&clock, COSTS, flood(gap, 401)).with_ring(4_096);
        let config = SourceConfig::new(policy(name)).with_quota(Quota::new(64, 64).with_first(1));
        sources.push(poller.add(device, config).unwrap());
    }
    poller.limit_cpu(limit.map(|share| CpuLimitConfig::new(Percent::new(share).unwrap()).stretched(STRETCH)));
    while clock.now() < at(401_000) {
        // What a forwarder does between two rounds.
        clock.advance(Duration::from_nanos(200));
        poller.wait(Some(at(401_000)), |_, _| clock.advance(Duration::from_nanos(400))).unwrap();
    }
    let received: Vec<_> = sources.iter().map(|&source| poller.source_stats(source).packets).collect();
    let (least, most) = (received.iter().min().unwrap(), received.iter().max().unwrap());
    assert!(least * 10 >= most * 9, "one of two starves: {received:?}");
    let kept = poller.host().slept().as_micros() as u64 / 401;
    (kept, received.iter().sum(), poller.cpu_exceeded())
}

/// A packet a wake-up is what one at a time can do: 50 µs of each 100 µs for two devices.
#[test]
fn a_computation_keeps_what_the_limit_leaves_at_any_load() {
    for name in POLICIES {
        for gap in [500_000, 50_000, 10_000] {
            let (free, all, _) = beside(name, gap, None);
            for share in (10..=80).step_by(10) {
                let (kept, received, _) = beside(name, gap, Some(share));
                let left = 1_000 - u64::from(share) * 10;
                let said = format!("{name}, {share}%, each {gap} ns: {kept} kept, {free} without a limit");
                assert!(kept + 30 >= left, "{said}");
                // Nothing is withheld where the share suffices; else all of it is used.
                let has_all = received * 100 >= all * 99;
                assert!(has_all || kept <= left + 30, "{said}");
                assert!(has_all || free < left + 30, "{said}: {received} of {all}");
            }
        }
    }
}

#[test]
fn the_limit_goes_before_the_delay_and_says_so() {
    for name in POLICIES {
        // 36 µs for the timer of each 200, and 2 µs for each packet.
        let (kept, received, exceeded) = beside(name, 2_000, Some(10));
        assert!((870..=960).contains(&kept) && exceeded > 4, "{name}: {kept} kept, {exceeded} times");
        assert!(received > 16_000, "{name}: {received} in a tenth of the time");
        let (_, _, exceeded) = beside(name, 500_000, Some(50));
        assert_eq!(exceeded, 0, "{name}: seldom, and half of a CPU");
    }
}
