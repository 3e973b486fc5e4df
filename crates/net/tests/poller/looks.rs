//! When devices are looked at: HIP, and what it is compared with.

use std::time::Duration;

use crate::simulated::{Costs, Machine, SimulatedDevice};
use softtimers::{Clock, Config, Percent, Random, Slack, SoftTimers, Timestamp, TriggerState};
use softtimers_net::poller::Poller;
use softtimers_poll::{
    BusyWait, ConstantPeriod, CpuLimitConfig, Hip, HipConfig, Policy, Preset, Quota, SourceConfig, SourceId,
    Stage, Watchdog,
};

use super::{Simulated, at, flood, micros, simulated};

fn add(poller: &mut Simulated, device: SimulatedDevice, policy: impl Policy + 'static) -> SourceId {
    poller.add(device, SourceConfig::new(Box::new(policy) as Box<dyn Policy>)).unwrap()
}

/// HIP §3: a poll reads the status, and takes every packet there is, in as many turns as its quota makes of it.
#[test]
fn a_poll_takes_every_packet() {
    for quota in [4, 64] {
        let clock = super::clock();
        let mut poller = Poller::on(Machine::new(&clock));
        // Eleven at once each 3 ms.
        let burst = |n| (0..11).map(move |packet| Timestamp::from_nanos(3_000_000 * n + packet));
        let device = SimulatedDevice::new(&clock, Costs::default(), (0..200u64).flat_map(burst));
        let policy = Hip::new(HipConfig::preset(Preset::Paper).polling_only());
        let source =
            poller.add(device, SourceConfig::new(policy).with_quota(Quota::new(quota, quota))).unwrap();
        while clock.now() < at(700_000) {
            let before = poller.policy(source).stats();
            poller.wait(Some(at(700_000)), |_, _| {}).unwrap();
            let after = poller.policy(source).stats();
            if after.polls > before.polls {
                assert_eq!(poller.device(source).waiting(), 0);
                assert_eq!((after.by_poll - before.by_poll) % 11, 0, "whole bursts");
            }
        }
        let stats = poller.policy(source).stats();
        assert_eq!(stats.by_poll, 200 * 11);
        assert!(stats.unsuccessful > 0 && stats.polls > stats.unsuccessful, "{stats:?}");
        assert_eq!(poller.source_stats(source).looks, stats.polls);
    }
}

/// HIP §6, and figure 2: arrivals, interrupts, polls that find packets and polls that do not. Packets each 2 ms become
/// regular, their stream ends, and ten polls in vain later an interrupt brings the next one.
#[test]
fn the_events_of_a_stream_are_in_order() {
    let (clock, mut poller) = simulated();
    let arrivals = (0..20).map(|n| 300 + 2_000 * n).chain([200_300]).map(Timestamp::from_micros);
    let device = SimulatedDevice::new(&clock, Costs::default(), arrivals);
    let source = add(&mut poller, device, Hip::new(HipConfig::preset(Preset::Paper)));
    poller.log_stages(1_000);
    while clock.now() < at(201_000) {
        poller.wait(Some(at(201_000)), |_, _| {}).unwrap();
    }
    let log = poller.stages().unwrap();
    let mut events: Vec<_> = log.iter().filter(|event| event.source == source).copied().collect();
    events.sort_by_key(|event| event.end);
    let mut woken = false;
    let mut seen = String::new();
    for event in events {
        match event.stage {
            Stage::Arrival => seen.push('A'),
            Stage::WakeUp => woken = true,
            Stage::Receive if std::mem::take(&mut woken) => seen.push('I'),
            Stage::Receive if event.packets > 0 => seen.push('P'),
            Stage::Receive => seen.push('-'),
            _ => {}
        }
    }
    // The last packet is 100 ms and more behind the others.
    let (regular, end) = seen.split_at(seen.rfind("----------").unwrap());
    assert_eq!(end, "----------AI", "{seen}");
    assert!(regular.starts_with("AIAI") && regular.ends_with("AP"), "{seen}");
    assert_eq!((regular.matches('A').count(), regular.matches("--------").count()), (20, 0), "{seen}");
    assert!(regular.matches("AP").count() > 10, "{seen}");
    // Once polled, no interrupt until the stream has ended.
    assert!(regular.rfind('I') < regular.find('P'), "{seen}");
}

/// HIP on soft timers: the poll is an event that trigger states run, ten times as often as by the clock; so packets wait
/// a fraction as long, and no interrupt comes while they are regular.
#[test]
fn hip_on_soft_timers_delays_less() {
    let mean_wait = |config: HipConfig| {
        let (clock, mut poller) = simulated();
        let mut random = Random::stream(4, 0);
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(200_000, 2_000));
        let source = add(&mut poller, device, Hip::new(config));
        let mut timers = SoftTimers::new(Config::default());
        timers.schedule(clock.now(), Duration::ZERO, Slack::EXACT, ());
        let (mut waited, mut packets) = (Duration::ZERO, 0u32);
        while clock.now() < at(2_000_000) {
            // A program that computes, and passes a trigger state each 10 to 50 µs.
            clock.advance(micros(10 + random.below(40)));
            let turn = timers.trigger(TriggerState::HandlerExit, clock.now());
            let due = timers.next(&turn).is_some();
            if due || poller.is_armed(source) {
                let next = poller
                    .poll(|packet, _| {
                        waited += clock.now().saturating_duration_since(packet.arrived.unwrap());
                        packets += 1;
                    })
                    .unwrap();
                if let Some(next) = next.filter(|_| timers.is_empty()) {
                    timers.schedule_at(clock.now(), next, Slack::EXACT, ());
                }
            }
        }
        assert!(packets > 9_800, "{packets}");
        (waited / packets, poller.source_stats(source).woken)
    };
    let (by_clock, _) = mean_wait(HipConfig::preset(Preset::Paper));
    let (soft, woken) = mean_wait(HipConfig::default());
    assert!(soft * 3 < by_clock, "{soft:?} on soft timers, {by_clock:?} by the clock");
    assert!(woken < 100, "{woken} wake-ups");
}

/// HIP §5: interrupts by the clock, 500 and 4,000 a second. As many looks as periods, at any rate of packets; and none
/// waits for longer than a period and what a turn takes.
#[test]
fn clocked_interrupts_come_at_their_rate_and_bound_the_wait() {
    for (period, gap) in [(2_000, 90_000), (2_000, 7_019_000), (250, 90_000), (250, 7_019_000)] {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(gap, 1_000));
        let source = add(&mut poller, device, ConstantPeriod::new(micros(period)));
        let mut longest = Duration::ZERO;
        while clock.now() < at(1_000_000) {
            poller
                .wait(Some(at(1_000_000)), |packet, _| {
                    longest = longest.max(clock.now().saturating_duration_since(packet.arrived.unwrap()));
                })
                .unwrap();
        }
        let stats = poller.source_stats(source);
        assert!(stats.looks.abs_diff(1_000_000 / period) <= 1, "{period} µs: {stats:?}");
        assert!(longest <= micros(period) + micros(30) && longest > micros(period / 2), "{longest:?}");
        assert_eq!((stats.armed, stats.woken), (0, 0));
    }
}

/// HIP §5: the polling watchdog in a program that computes: polled at trigger states, whenever they come; and where none
/// comes for 50 µs, the timer's interrupt looks. When it has nothing to compute, packets wake it up.
#[test]
fn a_watchdog_bounds_the_wait_between_trigger_states() {
    for longest_gap in [20, 400] {
        let (clock, mut poller) = simulated();
        let mut random = Random::stream(6, longest_gap);
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(91_000, 1_000));
        let source = add(&mut poller, device, Watchdog::default());
        let (mut longest, mut by_timer) = (Duration::ZERO, 0);
        let mut trigger = clock.now();
        let mut interrupt = None;
        while clock.now() < at(900_000) {
            let is_timer = interrupt.is_some_and(|at| at < trigger);
            clock.advance_to(interrupt.into_iter().chain([trigger]).min().unwrap());
            if clock.now() >= trigger {
                trigger = clock.now() + micros(random.below(longest_gap));
            }
            let before = poller.source_stats(source).packets;
            interrupt = poller
                .poll(|packet, _| {
                    longest = longest.max(clock.now().saturating_duration_since(packet.arrived.unwrap()));
                })
                .unwrap();
            by_timer += u64::from(is_timer) * (poller.source_stats(source).packets - before);
        }
        let stats = poller.source_stats(source);
        assert_eq!((stats.armed, stats.packets > 9_800), (0, true), "{stats:?}");
        let bound = longest_gap.min(50);
        // A turn and a packet.
        assert!(longest <= micros(bound) + micros(2), "{longest:?}");
        assert_eq!(by_timer > 0, longest_gap > 50, "{by_timer} packets by the timer");
        while clock.now() < at(990_000) {
            poller.wait(Some(at(990_000)), |_, _| {}).unwrap();
        }
        assert!(poller.source_stats(source).woken > 900);
    }
}

/// A limit of 10% on a machine with nothing else to do: it is never enforced; beside another program it is.
#[test]
fn input_is_not_withheld_from_an_idle_processor() {
    let received = |alone: bool| {
        let clock = super::clock();
        let machine = Machine::new(&clock);
        let mut poller = Poller::on(if alone { machine.alone() } else { machine });
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(1_000, 101));
        let source = add(&mut poller, device, BusyWait);
        poller.limit_cpu(Some(CpuLimitConfig::new(Percent::new(10).unwrap())));
        while clock.now() < at(101_000) {
            poller.wait(Some(at(101_000)), |_, _| {}).unwrap();
        }
        (poller.source_stats(source).packets, poller.source_stats(source).shut_time)
    };
    let ((all, shut), (some, _)) = (received(true), received(false));
    // The machine is asked once a millisecond at the most.
    assert!(shut < micros(100) && all > 90_000, "{all} packets, shut for {shut:?}");
    assert!(some * 8 < all, "{some} beside another program, {all} alone");
}
