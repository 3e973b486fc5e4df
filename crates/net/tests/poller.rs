//! The poller on simulated devices, where every figure is exact, and on real sockets.

#[path = "poller/changes.rs"]
mod changes;
#[path = "poller/hung.rs"]
mod hung;
#[path = "poller/interfaces.rs"]
mod interfaces;
#[path = "poller/limit.rs"]
mod limit;
#[path = "poller/looks.rs"]
mod looks;
#[path = "poller/machine.rs"]
mod machine;
#[path = "poller/network.rs"]
mod network;
#[path = "poller/pipeline.rs"]
mod pipeline;
#[path = "poller/simulated.rs"]
mod simulated;
#[path = "../src/skipped.rs"]
mod skipped;
#[path = "poller/sockets.rs"]
mod sockets;
#[path = "poller/xdp.rs"]
mod xdp;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use softtimers::{Clock, Config, ManualClock, Percent, Random, Slack, SoftTimers, Timestamp, TriggerState};
use softtimers_net::poller::{Gauge, Outputs, Packet, Poller};
use softtimers_poll::{
    Aggregation, AggregationConfig, BusyWait, ConstantPeriod, CpuLimitConfig, DelayBound, DelayBoundConfig,
    FeedbackConfig, Hip, HipConfig, Interrupts, Policy, Preset, Quota, SourceConfig, SourceId, SourceStats,
    SpinThenBlock, Stage, Watchdog,
};

use machine::Careless;
use simulated::{Costs, Machine, SimulatedDevice};

type Simulated<P = Box<dyn Policy>> = Poller<SimulatedDevice, P, Machine>;

/// No wait for what must come is longer.
const WAIT: Duration = Duration::from_secs(20);

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn clock() -> Rc<ManualClock> {
    Rc::new(ManualClock::new(Timestamp::ZERO))
}

/// A packet each `gap` ns from 1 ms on, until `until` ms.
fn flood(gap: u64, until: u64) -> impl Iterator<Item = Timestamp> {
    (0..)
        .map(move |n| Timestamp::from_nanos(1_000_000 + n * gap))
        .take_while(move |&at| at < self::at(until * 1_000))
}

/// All of them, by name.
fn policies() -> Vec<(&'static str, Box<dyn Policy>)> {
    vec![
        ("interrupts", Box::new(Interrupts)),
        ("busy", Box::new(BusyWait)),
        ("period", Box::new(ConstantPeriod::new(micros(250)))),
        ("spin", Box::new(SpinThenBlock::new(micros(50)))),
        ("watchdog", Box::new(Watchdog::default())),
        ("hip", Box::new(Hip::new(HipConfig::default()))),
        ("hip, paper", Box::new(Hip::new(HipConfig::preset(Preset::Paper)))),
        ("hip, event", Box::new(Hip::new(HipConfig::event()))),
        ("polling only", Box::new(Hip::new(HipConfig::default().polling_only()))),
        ("aggregation", Box::new(Aggregation::new(AggregationConfig::default()))),
        ("delay bound", Box::new(DelayBound::new(DelayBoundConfig::default()))),
        (
            "delay bound, paper",
            Box::new(DelayBound::new(DelayBoundConfig::preset(Preset::Paper, micros(200)))),
        ),
    ]
}

fn simulated() -> (Rc<ManualClock>, Simulated) {
    let clock = clock();
    let machine = Machine::new(&clock);
    (clock, Poller::on(machine))
}

fn forward(packet: Packet<'_, ()>, outputs: &mut Outputs<'_, SimulatedDevice>) {
    outputs.send(outputs.from(), packet.bytes, None);
}

/// Jain's index of fairness in percent.
fn jain(shares: &[u64]) -> u64 {
    let (sum, squares) = shares.iter().fold((0, 0), |(sum, squares), &n| (sum + n, squares + n * n));
    sum * sum * 100 / (shares.len() as u64 * squares)
}

#[test]
fn a_packet_that_comes_during_a_wake_up_is_found_by_it() {
    let (clock, mut poller) = simulated();
    let arrivals = [10, 20, 30].map(at);
    let device = SimulatedDevice::new(&clock, Costs::default(), arrivals);
    poller.add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>)).unwrap();
    let mut received = Vec::new();
    while received.len() < 3 {
        poller
            .wait(None, |packet, _| {
                received.push(clock.now().saturating_duration_since(packet.arrived.unwrap()));
            })
            .unwrap();
    }
    assert_eq!(received[0], Duration::from_nanos(11_300));
}

#[test]
fn a_turn_is_a_quota_at_most_and_equal_sources_get_equal_shares() {
    let quota = 8;
    for (name, _) in policies() {
        let (clock, mut poller) = simulated();
        for _ in 0..4 {
            let device = SimulatedDevice::new(&clock, Costs::default(), flood(500, 30));
            poller.add(device, SourceConfig::new(policy(name)).with_quota(Quota::new(quota, quota))).unwrap();
        }
        let (mut taken, mut last, mut run) = ([0u64; 4], usize::MAX, 0);
        while clock.now() < at(29_000) {
            poller
                .wait(Some(at(1_000_000)), |_, outputs| {
                    let from = outputs.from().index();
                    run = if last == from { run + 1 } else { 1 };
                    last = from;
                    taken[from] += 1;
                    assert!(run <= quota, "{name}: {run} packets of device {from} in a row");
                })
                .unwrap();
        }
        assert!(taken.iter().sum::<u64>() > 10_000, "{name}: {taken:?}");
        assert!(jain(&taken) >= 99, "{name}: {taken:?}");
        assert!((0..4).all(|n| poller.device(SourceId::from_index(n)).most_taken() == quota as usize));
    }
}

/// Livelock §6.6: without a quota the output starves under overload; with one it does not.
#[test]
fn without_a_quota_throughput_collapses_and_with_one_it_does_not() {
    // A packet each µs, and to receive one takes 1.6 µs.
    let costs = Costs { packet: Duration::from_nanos(1_600), ..Costs::default() };
    let delivered = [Quota::NONE, Quota::new(8, 8), Quota::default()].map(|quota| {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, costs, flood(1_000, 101)).with_output(64, 64, micros(1));
        let source = poller
            .add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>).with_quota(quota))
            .unwrap();
        while clock.now() < at(101_000) {
            poller.wait(None, forward).unwrap();
        }
        poller.device(source).sent()
    });
    let [none, eight, default] = delivered;
    assert!(none < 200, "{delivered:?}");
    assert!(eight > 40_000 && default > 40_000, "{delivered:?} of 100,000 offered");
}

/// In overload what is lost is lost at the interface, before anything was spent on it (livelock §6.4), and every
/// packet is accounted for.
#[test]
fn packets_that_are_accepted_are_delivered_or_counted() {
    let mut random = Random::stream(3, 0);
    for (name, _) in policies() {
        for gap in [700, 5_000, 100_000] {
            let (clock, mut poller) = simulated();
            let mut time = 1_000_000;
            let arrivals: Vec<_> = (0..3_000)
                .map(|_| {
                    time += 1 + random.below(2 * gap);
                    Timestamp::from_nanos(time)
                })
                .collect();
            let end = *arrivals.last().unwrap() + Duration::from_millis(50);
            let device =
                SimulatedDevice::new(&clock, Costs::default(), arrivals).with_output(40, 8, micros(1));
            let quota = Quota::new(16, 16);
            let source = poller.add(device, SourceConfig::new(policy(name)).with_quota(quota)).unwrap();
            let mut seen = Vec::new();
            while clock.now() < end {
                poller
                    .wait(Some(end), |packet, outputs| {
                        seen.push(u64::from_be_bytes(packet.bytes[..].try_into().unwrap()));
                        match seen.len() % 7 {
                            0 => outputs.drop_by_rule(),
                            _ => _ = outputs.send(outputs.from(), packet.bytes, None),
                        }
                    })
                    .unwrap();
            }
            let drops = poller.drops(source).unwrap();
            let device = poller.device(source);
            assert_eq!(device.arrived(), 3_000, "{name}");
            assert_eq!((device.waiting(), device.queued()), (0, 0), "{name}: nothing is stranded");
            assert_eq!(device.arrived(), device.sent() + drops.total(), "{name}: {drops:?}");
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{name}: in order, none twice");
            assert_eq!(seen.len() as u64, 3_000 - drops.interface);
        }
    }
}

/// A fresh one of this name.
fn policy(name: &str) -> Box<dyn Policy> {
    policies().into_iter().find(|(other, _)| *other == name).unwrap().1
}

/// Wake-ups are enabled exactly while nobody polls, and only for rings that were seen empty.
#[test]
fn wake_ups_are_off_while_polling() {
    for (name, policy) in policies() {
        let (clock, mut poller) = simulated();
        let mut random = Random::stream(8, 0);
        let mut time = 1_000_000;
        let arrivals: Vec<_> = (0..2_000)
            .map(|n| {
                time += if n % 50 < 25 { random.below(3_000) } else { random.below(200_000) };
                Timestamp::from_nanos(time)
            })
            .collect();
        let source = poller
            .add(SimulatedDevice::new(&clock, Costs::default(), arrivals), SourceConfig::new(policy))
            .unwrap();
        let (mut episodes, mut was_armed, mut received) = (0, false, 0);
        let end = Timestamp::from_nanos(time) + Duration::from_millis(50);
        while clock.now() < end {
            poller.wait(Some(clock.now() + Duration::from_millis(10)), |_, _| received += 1).unwrap();
            let armed = poller.is_armed(source);
            assert_eq!(armed, poller.device(source).is_armed(), "{name}");
            assert!(!armed || poller.device(source).waiting() == 0, "{name}: enabled, and not idle");
            episodes += u64::from(was_armed && !armed);
            was_armed = armed;
        }
        assert_eq!(received, 2_000, "{name}");
        let stats = poller.source_stats(source);
        assert_eq!(poller.device(source).turns_while_armed(), 0, "{name}");
        assert!(stats.woken <= stats.armed - stats.raced, "{name}: {stats:?}");
        assert!(stats.woken <= stats.looks && episodes <= stats.looks, "{name}: {stats:?}");
    }
}

/// A packet that arrives between the last look and the enabling of the wake-up. A machine that does not look again
/// shows that there were such packets.
#[test]
fn a_packet_between_the_last_look_and_arming_is_not_stranded() {
    // Gaps of 10.9 to 12.9 µs around the time from a wake-up to the arming after it.
    let arrivals = || {
        (0..400u64).scan(1_000_000, |time, n| {
            *time += 10_900 + 5 * n;
            Some(Timestamp::from_nanos(*time))
        })
    };
    let run = |poller: &mut dyn FnMut(&mut u64) -> u64| {
        let mut received = 0;
        let raced = poller(&mut received);
        (received, raced)
    };
    let careful = run(&mut |received| {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, Costs::default(), arrivals());
        let source = poller.add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>)).unwrap();
        (0..5_000).for_each(|_| poller.wait(Some(at(1_000_000)), |_, _| *received += 1).unwrap());
        poller.source_stats(source).raced
    });
    assert_eq!(careful.0, 400);
    assert!(careful.1 > 0, "no packet came in between: the test shows nothing");

    let careless = run(&mut |received| {
        let clock = clock();
        let mut poller = Poller::on(Careless(Machine::new(&clock)));
        // One packet more, in the gap, and then none: nothing wakes the poller up for it.
        let last = Timestamp::from_nanos(1_000_000 + 11_300 + 100);
        let device = SimulatedDevice::new(&clock, Costs::default(), [at(1_000), last]);
        poller.add(device, SourceConfig::new(Interrupts)).unwrap();
        (0..100).for_each(|_| poller.wait(Some(at(10_000)), |_, _| *received += 1).unwrap());
        0
    });
    assert_eq!(careless.0, 1, "the machine that does not look again strands the second");
}

/// Livelock §8.2: the first packet of a burst does not wait for the others.
#[test]
fn the_first_packet_does_not_wait_for_its_burst() {
    let latencies: Vec<_> = [1u64, 2, 4, 16, 64]
        .map(|burst| {
            let (clock, mut poller) = simulated();
            let arrivals: Vec<_> = (0..burst).map(|n| Timestamp::from_nanos(1_000_000 + n)).collect();
            let device = SimulatedDevice::new(&clock, Costs::default(), arrivals);
            poller.add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>)).unwrap();
            let mut first = None;
            while first.is_none() {
                poller
                    .wait(None, |packet, _| {
                        clock.advance(micros(200)); // filter, forward
                        first.get_or_insert(clock.now().saturating_duration_since(packet.arrived.unwrap()));
                    })
                    .unwrap();
            }
            first.unwrap()
        })
        .into();
    assert!(latencies.windows(2).all(|pair| pair[0] == pair[1]), "{latencies:?}");
}

/// A pipeline of two stages on one CPU, whose first stage has priority: packets finished in 100 ms of a
/// flood.
fn pipeline(feedback: bool) -> (u64, u64, u64) {
    let (clock, mut poller) = simulated();
    let device = SimulatedDevice::new(&clock, Costs::default(), flood(1_000, 101));
    let source = poller
        .add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>).with_quota(Quota::new(8, 8)))
        .unwrap();
    let gauge = Gauge::new().unwrap();
    let queue = feedback
        .then(|| {
            poller.attach_queue(&gauge, FeedbackConfig::preset(Preset::Measured, 32).unwrap(), &[source])
        })
        .transpose()
        .unwrap();
    let (mut waiting, mut finished, mut dropped) = (VecDeque::new(), 0, 0);
    while clock.now() < at(101_000) {
        let mut took = 0;
        poller
            .poll(|packet, _| {
                took += 1;
                if waiting.len() < 32 {
                    waiting.push_back(packet.bytes.to_vec());
                    gauge.put(1);
                } else {
                    gauge.refused();
                    dropped += 1;
                }
            })
            .unwrap();
        // The filter runs only when nothing is received, as a user process does below an interrupt handler.
        if took == 0 {
            if waiting.pop_front().is_some() {
                clock.advance(micros(5));
                gauge.took(1);
                finished += 1;
            } else {
                poller
                    .wait(Some(clock.now() + micros(100)), |packet, _| {
                        waiting.push_back(packet.bytes.to_vec());
                        gauge.put(1);
                    })
                    .unwrap();
            }
        }
    }
    let timed_out = queue.map_or(0, |queue| poller.queue_stats(queue).timed_out);
    (finished, dropped, timed_out)
}

/// Livelock §6.6.1.
#[test]
fn feedback_from_the_queue_prevents_livelock() {
    let (without, dropped, _) = pipeline(false);
    let (with, dropped_with, timed_out) = pipeline(true);
    assert!(without < 200 && dropped > 10_000, "{without} finished, {dropped} dropped");
    // A filter alone finishes 20,000 in that time, and receiving what it finishes takes a fifth of its time.
    assert!(with > 14_000, "{with} finished");
    assert_eq!((dropped_with, timed_out), (0, 0), "nothing is taken in that must be dropped");
}

/// A packet at a time into a queue of 32: shut at 24, open at 8, and nothing in between changes that.
#[test]
fn input_is_shut_at_24_and_opened_at_8_of_32() {
    let (clock, mut poller) = simulated();
    let device = SimulatedDevice::new(&clock, Costs::default(), flood(1_000, 100));
    let config = SourceConfig::new(Box::new(BusyWait) as Box<dyn Policy>).with_quota(Quota::new(1, 1));
    let source = poller.add(device, config).unwrap();
    let gauge = Gauge::new().unwrap();
    let config = FeedbackConfig::preset(Preset::Measured, 32).unwrap();
    let queue = poller.attach_queue(&gauge, config, &[source]).unwrap();
    let (mut shut, mut shuts, mut opened_at) = (false, 0, Vec::new());
    while clock.now() < at(90_000) {
        poller
            .poll(|_, _| {
                if std::mem::take(&mut shut) {
                    opened_at.push(gauge.depth());
                }
                gauge.put(1);
                assert!(gauge.depth() <= 24, "the turn at 24 was the last");
                shut = gauge.depth() == 24;
                shuts += u64::from(shut);
            })
            .unwrap();
        // The consumer takes one in three µs while input is open, and in one while it is shut.
        if shut || clock.now().as_nanos() % 3_000 < 1_000 {
            gauge.took(1);
        }
        clock.advance(micros(1));
    }
    assert!(opened_at.len() > 100 && opened_at.iter().all(|&depth| depth == 8), "{opened_at:?}");
    let stats = poller.queue_stats(queue);
    assert_eq!((stats.shut, stats.resumed, stats.timed_out), (shuts, opened_at.len() as u64, 0), "{stats:?}");
}

/// A consumer that hangs: the other one that shares its source goes on, a quota each time-out.
#[test]
fn beside_a_hung_consumer_others_are_served() {
    let (clock, mut poller) = simulated();
    let interrupts =
        || SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>).with_quota(Quota::new(8, 8));
    let shared =
        poller.add(SimulatedDevice::new(&clock, Costs::default(), flood(20_000, 100)), interrupts()).unwrap();
    let other =
        poller.add(SimulatedDevice::new(&clock, Costs::default(), flood(20_000, 100)), interrupts()).unwrap();
    // Two consumers of the shared source, each with its queue; the first one hangs.
    let (hung, lively) = (Gauge::new().unwrap(), Gauge::new().unwrap());
    let paper = FeedbackConfig::preset(Preset::Paper, 32).unwrap();
    let queue = poller.attach_queue(&hung, paper, &[shared]).unwrap();
    let second = poller.attach_queue(&lively, paper, &[shared]).unwrap();

    let (mut served, mut others, mut last, mut longest) = (0, 0, Timestamp::ZERO, Duration::ZERO);
    while clock.now() < at(90_000) {
        let now = clock.now();
        poller
            .wait(Some(now + micros(100)), |packet, outputs| {
                if outputs.from() == other {
                    others += 1;
                } else if packet.bytes[7] % 2 == 0 {
                    if hung.depth() < 32 { hung.put(1) } else { hung.refused() }
                } else {
                    lively.put(1);
                    longest = longest.max(clock.now().saturating_duration_since(last));
                    last = clock.now();
                    served += 1;
                }
            })
            .unwrap();
        lively.took(lively.depth());
    }
    let (stats, second) = (poller.queue_stats(queue), poller.queue_stats(second));
    assert_eq!((stats.resumed, second.shut), (0, 0), "{stats:?} {second:?}");
    assert!((80..=95).contains(&stats.timed_out), "once each millisecond: {stats:?}");
    // A quota each millisecond, of which half is for the second consumer.
    assert!(served > 300 && longest <= Duration::from_millis(3), "{served} served, {longest:?}");
    assert!(others >= 4_400, "the other source is not shut: {others}");
}

/// Livelock §7: what packets use of a period is the share and one round at the most; with the CPU idle, input
/// is never shut.
#[test]
fn the_processor_limit_is_overshot_by_a_round_at_the_most() {
    for percent in [25, 50, 75] {
        let (clock, mut poller) = simulated();
        for _ in 0..2 {
            let device = SimulatedDevice::new(&clock, Costs::default(), flood(1_000, 1_001));
            poller
                .add(
                    device,
                    SourceConfig::new(Box::new(BusyWait) as Box<dyn Policy>).with_quota(Quota::new(5, 5)),
                )
                .unwrap();
        }
        let share = Percent::new(percent).unwrap();
        poller.limit_cpu(Some(CpuLimitConfig::new(share)));
        // Each packet takes 200 µs, so a turn of five is a tenth of the period.
        let (mut used, mut period, mut most, mut all) = (0, 0, 0, 0);
        while clock.now() < at(1_000_000) {
            poller
                .wait(None, |_, _| {
                    clock.advance(micros(200));
                    let this = clock.now().as_nanos() / 10_000_000;
                    used = if this == period { used + 201 } else { 201 };
                    period = this;
                    most = most.max(used);
                    all += 201;
                })
                .unwrap();
        }
        let allowed = u64::from(percent) * 100;
        assert!(most <= allowed + 10 * 201 + 10, "{percent}%: {most} µs of a period");
        let percent_used = all / 10_000;
        assert!((u64::from(percent)..=u64::from(percent) + 10).contains(&percent_used), "{percent_used}%");
        assert!(poller.cpu_inhibited() > 90);
    }
}

/// A program may know more than its machine.
#[test]
fn an_idle_processor_is_never_withheld_from_packets() {
    let (clock, mut poller) = simulated();
    let device = SimulatedDevice::new(&clock, Costs::default(), flood(1_000, 101));
    let source = poller.add(device, SourceConfig::new(Box::new(BusyWait) as Box<dyn Policy>)).unwrap();
    poller.limit_cpu(Some(CpuLimitConfig::new(Percent::new(10).unwrap())));
    while clock.now() < at(100_000) {
        poller.processor_idle();
        poller.wait(None, |_, _| {}).unwrap();
    }
    let stats = poller.source_stats(source);
    assert!(stats.shut_time < Duration::from_millis(1), "{stats:?}");
}

/// Soft timers §4.2, through a program that computes and looks at its trigger states.
#[test]
fn polls_find_the_aggregation_quota() {
    for quota in [1, 2, 5, 10, 15] {
        let (clock, mut poller) = simulated();
        let mut random = Random::stream(2, quota);
        let mut time = 0;
        let arrivals = std::iter::repeat_with(move || {
            time += 20_000 + random.below(40_000);
            Timestamp::from_nanos(time)
        });
        let config = AggregationConfig { quota: quota as u32, ..AggregationConfig::default() };
        let policy = Box::new(Aggregation::new(config)) as Box<dyn Policy>;
        let source = poller
            .add(SimulatedDevice::new(&clock, Costs::default(), arrivals), SourceConfig::new(policy))
            .unwrap();
        let mut next = Some(Timestamp::ZERO);
        let mut warm = None;
        while clock.now() < at(2_000_000) {
            clock.advance(micros(2)); // computes
            if next.is_some_and(|next| next <= clock.now()) {
                next = poller.poll(|_, _| {}).unwrap();
            }
            if clock.now() > at(200_000) {
                warm.get_or_insert(poller.source_stats(source));
            }
        }
        let (warm, stats) = (warm.unwrap(), poller.source_stats(source));
        let found = (stats.packets - warm.packets) * 1_000 / (stats.looks - warm.looks);
        assert!(found.abs_diff(1_000 * quota) <= 150 * quota, "{found} thousandths, not {quota}");
        assert_eq!(stats.woken, 0, "received without a wake-up");
    }
}

/// A 20 ms timer beside a flood of five times what the handler can do.
#[test]
fn timers_fire_under_a_flood() {
    for (name, policy) in policies() {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(1_000, 250));
        poller.add(device, SourceConfig::new(policy)).unwrap();
        let mut timers = SoftTimers::new(Config::default());
        timers.schedule(clock.now(), Duration::from_millis(20), Slack::EXACT, ());
        let (mut fired, mut latest) = (0, Duration::ZERO);
        while clock.now() < at(250_000) {
            let turn = timers.trigger(TriggerState::HandlerExit, clock.now());
            while let Some(event) = timers.next(&turn) {
                fired += 1;
                latest = latest.max(event.lateness);
                timers.schedule(event.due, Duration::from_millis(20), Slack::EXACT, ());
            }
            poller.wait(timers.poll_at(), |_, _| clock.advance(micros(4))).unwrap();
        }
        assert!(fired >= 12, "{name}: {fired} of 12");
        assert!(latest < Duration::from_millis(1), "{name}: {latest:?} late");
    }
}

/// The delay that each policy promises, at rates it should poll at and at rates it should not.
#[test]
fn the_delay_bound_holds_and_saves_wake_ups() {
    for (gap, bound, polls) in
        [(10_000, 200, true), (30_000, 200, true), (500_000, 200, false), (100_000, 2_000, true)]
    {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(gap, 500));
        let policy = DelayBound::new(DelayBoundConfig::preset(Preset::Measured, micros(bound)));
        let source = poller.add(device, SourceConfig::new(Box::new(policy) as Box<dyn Policy>)).unwrap();
        let (mut longest, mut received) = (Duration::ZERO, 0u64);
        while clock.now() < at(499_000) {
            poller
                .wait(Some(at(500_000)), |packet, _| {
                    received += 1;
                    longest = longest.max(clock.now().saturating_duration_since(packet.arrived.unwrap()));
                })
                .unwrap();
        }
        // And a turn, and being woken up.
        assert!(longest <= micros(bound) + micros(90), "gaps of {gap} ns: {longest:?}");
        let woken = poller.source_stats(source).woken;
        assert_eq!(woken * 20 < received, polls, "gaps of {gap} ns: {woken} wake-ups for {received}");
    }
}

#[test]
fn a_device_that_is_not_there_takes_nothing() {
    let (clock, mut poller) = simulated();
    let device = SimulatedDevice::new(&clock, Costs::default(), [at(10)]);
    let source = poller.add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>)).unwrap();
    let mut taken = true;
    while taken {
        poller
            .wait(None, |packet, outputs| taken = outputs.send(SourceId::from_index(7), packet.bytes, None))
            .unwrap();
    }
    assert_eq!(poller.drops(source).unwrap().output, 1);
}

/// Livelock §8.1: one packet's way, in the order it took: with polling without what a wake-up takes. A trace viewer
/// reads the same.
#[test]
fn the_stages_of_a_packet_are_logged_in_order() {
    use Stage::{Arm, Arrival, Receive, Transmit, WakeUp};
    let woken: &[Stage] = &[Arm, Arrival, WakeUp, Receive, Arm, Transmit];
    for (name, wanted) in [("interrupts", woken), ("period", &[Arrival, Receive, Transmit])] {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, Costs::default(), [at(100)]);
        poller.add(device, SourceConfig::new(policy(name))).unwrap();
        poller.log_stages(100);
        while clock.now() < at(900) {
            poller.wait(Some(at(900)), forward).unwrap();
        }
        let log = poller.stages().unwrap();
        let mut events: Vec<_> = log.iter().collect();
        events.sort_by_key(|event| event.begin);
        // Who polls also looks when there is nothing.
        let of_packet = events.iter().filter(|event| event.stage != Receive || event.packets > 0);
        assert_eq!(of_packet.map(|event| event.stage).collect::<Vec<_>>(), wanted, "{name}");
        assert!(events.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{name}: {events:?}");
        let mut json = String::new();
        log.write_chrome(&mut json).unwrap();
        let trace: serde_json::Value = serde_json::from_str(&json).unwrap();
        let read = trace.as_array().unwrap().iter().map(|event| {
            assert_eq!((&event["ph"], &event["tid"]), (&"X".into(), &0.into()), "{event}");
            (event["name"].as_str().unwrap(), event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap())
        });
        let mut read: Vec<_> = read.collect();
        read.sort_by(|one, other| one.1.total_cmp(&other.1));
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let logged = events.iter().map(|event| {
            let took = event.end.saturating_duration_since(event.begin).as_nanos() as u64;
            (event.stage.name(), micros(event.begin.as_nanos()), micros(took))
        });
        assert_eq!(read, logged.collect::<Vec<_>>(), "{name}");
    }
}

/// Soft timers §4.2: while the program is busy, packets are received without one wait; §5.8: when it goes idle,
/// polling ends, wake-ups come on, each change is counted, and a packet waits as long as by interrupts alone.
#[test]
fn a_busy_program_never_waits_and_an_idle_one_is_woken_up() {
    let config = DelayBoundConfig::preset(Preset::Paper, micros(200));
    let policy = DelayBound::new(config);
    let (policy, woken, waits) = busy_then_idle(policy, |busy, policy| {
        assert!(busy.packets > 980 && busy.woken < 10, "{busy:?}");
        assert_eq!(policy.switches(), 1, "to polling, and not back while it is busy");
    });
    // Each wake-up's turn ends with a poll to come, which there is no need of when nothing else is left to do.
    let changes = policy.switches();
    assert!(changes.abs_diff(2 * woken) <= 2, "{changes} changes, {woken} wake-ups");
    let (_, _, by_interrupts) = busy_then_idle(Interrupts, |_, _| {});
    let within_a_tenth = |wait: Duration, other: Duration| wait.abs_diff(other) * 10 <= other;
    let (mean, wanted) = (mean(&waits), mean(&by_interrupts));
    assert!(wanted > micros(1), "a wake-up takes some: {wanted:?}");
    assert!(within_a_tenth(mean, wanted), "{mean:?} on the mean, and {wanted:?} by interrupts");
    let (longest, wanted) = (waits.iter().max().unwrap(), by_interrupts.iter().max().unwrap());
    assert!(within_a_tenth(*longest, *wanted), "{longest:?} at the most, and {wanted:?} by interrupts");
}

fn mean(waits: &[Duration]) -> Duration {
    waits.iter().sum::<Duration>() / waits.len() as u32
}

/// A program that looks each 3 µs for 100 ms, and then sleeps for 200, at ten packets a millisecond: how many wake-ups it
/// had, and how long each packet waited while it slept, but for the first ten, which the change met.
fn busy_then_idle<P: Policy + Clone>(
    policy: P,
    busy: impl FnOnce(SourceStats, &P),
) -> (P, u64, Vec<Duration>) {
    let clock = clock();
    let mut poller: Simulated<P> = Poller::on(Machine::new(&clock));
    let device = SimulatedDevice::new(&clock, Costs::default(), flood(100_000, 300));
    let source = poller.add(device, SourceConfig::new(policy)).unwrap();
    while clock.now() < at(100_000) {
        clock.advance(micros(3));
        poller.poll(|_, _| {}).unwrap();
    }
    let before = poller.source_stats(source);
    busy(before, poller.policy(source));
    let mut waits = Vec::new();
    while clock.now() < at(299_000) {
        poller
            .wait(Some(at(300_000)), |packet, _| {
                let arrived = packet.arrived.unwrap();
                waits.push(clock.now().saturating_duration_since(arrived));
            })
            .unwrap();
    }
    let idle = poller.source_stats(source);
    let packets = idle.packets - before.packets;
    assert!(packets > 1_900 && idle.woken - before.woken > packets - 10, "{idle:?}");
    (poller.policy(source).clone(), idle.woken - before.woken, waits.split_off(10))
}

/// A loop of somebody else's: it sleeps by itself, and says so.
#[test]
fn a_loop_of_ones_own_says_when_it_sleeps() {
    for (says, polls) in [(true, false), (false, true)] {
        let (clock, mut poller) = simulated();
        // Two thousand a second, and 200 µs: wake-ups, unless the CPU is saturated.
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(500_000, 100));
        let source = poller.add(device, SourceConfig::new(policy("delay bound"))).unwrap();
        while clock.now() < at(99_000) {
            let mut next = poller.poll(|_, _| {}).unwrap();
            if says {
                next = poller.idle(|_, _| {}).unwrap();
            }
            // The descriptor would wake it up for an armed device.
            let arrival = poller.device(source).next_arrival().filter(|_| poller.is_armed(source));
            clock.advance_to(next.into_iter().chain(arrival).min().unwrap().max(clock.now() + micros(1)));
        }
        let stats = poller.source_stats(source);
        assert!(stats.packets >= 195, "{stats:?}");
        assert_eq!(stats.looks > 2 * stats.packets, polls, "{stats:?}");
    }
}
