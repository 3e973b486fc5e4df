//! Two stages on one CPU, the first above the second as an interrupt handler is above the rest of a kernel; and the
//! same work done in one. What the papers say of both, exactly.
//!
//! ```text
//!   ring ─▶ device level ─▶ queue of 32 ─▶ the work: only while nothing is at the device level
//!   ring ─▶ polled: each packet's work before the next is taken
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::simulated::{Costs, Machine, SimulatedDevice};
use softtimers::{Clock, ManualClock, Percent, Timestamp};
use softtimers_net::poller::{Gauge, Poller};
use softtimers_poll::{
    AutoQuota, AutoQuotaConfig, BusyWait, CpuLimitConfig, DelayBound, DelayBoundConfig, FeedbackConfig,
    Interrupts, LossFree, Policy, Preset, Progress, ProgressConfig, Quota, SourceConfig, SourceId,
};

use super::{Simulated, at, clock, flood, forward, micros, simulated};

/// Room in the queue, and in the ring.
const ROOM: usize = 32;

/// On what other ground input is shut.
#[derive(Clone, Copy)]
enum Ground {
    None,
    NoProgress,
}

#[derive(Clone)]
struct Pipeline {
    costs: Costs,
    quota: Quota,
    work: Duration,
    feedback: Option<FeedbackConfig>,
    ground: Ground,
    /// One stage instead of two.
    polled: bool,
    /// The number of packets that come at once.
    burst: u64,
}

/// Batches as in livelock §4.1: each packet that comes while an interrupt is handled is handled in it.
const BATCHED: Pipeline = Pipeline {
    costs: Costs {
        receive_turn: Duration::from_nanos(1),
        packet: micros(1),
        transmit_turn: Duration::from_nanos(1),
        arm: Duration::ZERO,
        wake_up: micros(10),
        timer: [Duration::ZERO; 2],
    },
    quota: Quota::NONE,
    work: micros(20),
    feedback: None,
    ground: Ground::None,
    polled: false,
    burst: 1,
};

/// An interrupt for each packet.
fn unbatched() -> Pipeline {
    Pipeline { costs: Costs { packet: micros(11), wake_up: Duration::ZERO, ..BATCHED.costs }, ..BATCHED }
}

fn polled() -> Pipeline {
    Pipeline { quota: Quota::new(8, 8), polled: true, ..BATCHED }
}

#[derive(Default, Debug)]
struct Outcome {
    arrived: u64,
    /// Dropped before anything was spent on them.
    at_interface: u64,
    at_queue: u64,
    /// In the ring, in the queue, or in work.
    left: u64,
    finished: u64,
    timed_out: u64,
    /// From arrival to the end of the work, in order.
    latencies: Vec<Duration>,
}

impl Pipeline {
    #[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
    fn run(&self, arrivals: impl Iterator<Item = Timestamp> + 'static, until: Timestamp) -> Outcome {
        let clock = clock();
        let mut poller = Poller::on(Machine::with_costs(&clock, self.costs));
        let device = SimulatedDevice::new(&clock, self.costs, arrivals).with_ring(ROOM);
        let source = poller.add(device, SourceConfig::new(Interrupts).with_quota(self.quota)).unwrap();
        let gauge = Gauge::new().unwrap();
        let feedback = self.feedback.map(|config| poller.attach_queue(&gauge, config, &[source]).unwrap());
        let gate = poller.add_gate(&[source]);
        let mut progress = Progress::new(ProgressConfig::preset(Preset::Paper));
        let (mut out, mut queue, mut working) = (Outcome::default(), VecDeque::new(), None);
        let done = |out: &mut Outcome, arrived| {
            out.finished += 1;
            out.latencies.push(clock.now().saturating_duration_since(arrived));
        };
        while clock.now() < until {
            let (mut took, idle) = (0, queue.is_empty() && working.is_none());
            let mut take = |packet: softtimers_net::poller::Packet<'_, ()>| {
                took += 1;
                let arrived = packet.arrived.unwrap();
                if self.polled {
                    clock.advance(self.work);
                    done(&mut out, arrived);
                } else if queue.len() < ROOM {
                    queue.push_back(arrived);
                    gauge.put(1);
                } else {
                    gauge.refused();
                    out.at_queue += 1;
                }
            };
            if idle {
                poller.wait(Some(until), |packet, _| take(packet)).unwrap();
            } else {
                poller.poll(|packet, _| take(packet)).unwrap();
            }
            let now = clock.now();
            match self.ground {
                Ground::None => {}
                Ground::NoProgress => {
                    let taken = poller.source_stats(source).packets;
                    poller.set_gate(gate, progress.observe(now, taken, out.finished));
                }
            }
            if took > 0 || self.polled {
                continue;
            }
            // Below the device level, which may interrupt it each microsecond.
            if working.is_none() {
                working = queue.pop_front().map(|arrived| (arrived, self.work));
            }
            if let Some((arrived, left)) = &mut working {
                clock.advance(micros(1));
                *left -= micros(1);
                if left.is_zero() {
                    done(&mut out, *arrived);
                    gauge.took(1);
                    working = None;
                }
            }
        }
        out.timed_out = feedback.map_or(0, |queue| poller.queue_stats(queue).timed_out);
        let device = poller.device(source);
        out.left = (device.waiting() + queue.len()) as u64 + u64::from(working.is_some());
        out.arrived = device.arrived();
        out.at_interface = poller.drops(source).unwrap().interface;
        out
    }

    /// A packet each `gap` ns on average, for 50 ms.
    fn flooded(&self, gap: u64) -> Outcome {
        self.flooded_until(gap, 51)
    }

    fn flooded_until(&self, gap: u64, millis: u64) -> Outcome {
        let burst = self.burst;
        let arrivals = flood(gap * burst, millis)
            .flat_map(move |first| (0..burst).map(move |n| first + Duration::from_nanos(n)));
        let outcome = self.run(arrivals, at(1_000 * millis));
        let Outcome { arrived, at_interface, at_queue, left, finished, .. } = outcome;
        assert_eq!(arrived, finished + at_interface + at_queue + left, "gaps of {gap} ns: {outcome:?}");
        outcome
    }

    /// The maximum loss-free receive rate.
    fn loss_free(&self) -> u64 {
        let mut search = LossFree::new(4_000, 1_000_000);
        while let Some(rate) = search.rate() {
            let Outcome { at_interface, at_queue, left, .. } = self.flooded_until(1_000_000_000 / rate, 16);
            search.tried(at_interface + at_queue == 0 && left < ROOM as u64 / 2);
        }
        search.found()
    }
}

/// Livelock §4.3: the device level comes first, so the first packet's work waits until all of the burst has been taken in;
/// polled, it does not.
#[test]
fn under_interrupts_the_first_packet_waits_for_its_burst() {
    let first = |pipeline: &Pipeline, burst: u64| {
        let arrivals = (0..burst).map(|n| Timestamp::from_nanos(1_000_000 + n));
        pipeline.run(arrivals, at(4_000)).latencies[0]
    };
    let bursts = [1u64, 2, 4, 8, 16, 32];
    for pipeline in [BATCHED, unbatched()] {
        let one = first(&pipeline, 1);
        for burst in bursts {
            let more = first(&pipeline, burst) - one;
            let expected = pipeline.costs.packet * (burst - 1) as u32;
            assert!(more.abs_diff(expected) <= micros(1), "{burst}: {more:?}, not {expected:?}");
        }
    }
    assert!(bursts.iter().all(|&burst| first(&polled(), burst) == first(&polled(), 1)));
}

/// Livelock §1 and §4.2: input has priority, so nothing is left for the work once packets come faster than the device
/// level takes them, whatever the work costs; until then something is.
#[test]
fn strict_priority_livelocks_beyond_one_over_the_cost_of_an_input() {
    for work in [micros(5), micros(20), micros(80)] {
        let pipeline = Pipeline { work, ..unbatched() };
        // 11 µs each, and a nanosecond for the turn.
        let (above, below) = (pipeline.flooded(10_900), pipeline.flooded(14_000));
        assert_eq!(above.finished, 0, "{work:?}: {above:?}");
        // A fifth of the CPU is left, of 50 ms.
        let possible = 10_000 / work.as_micros() as u64;
        assert!(below.finished * 10 > possible * 9, "{work:?}: {} of {possible}", below.finished);
    }
}

/// Livelock §4.1: several packets an interrupt raise the loss-free rate, and at some higher rate there is livelock again.
#[test]
fn batching_moves_livelock_and_does_not_remove_it() {
    let [batched, single] =
        [BATCHED, unbatched()].map(|pipeline| Pipeline { burst: 4, work: micros(5), ..pipeline }.loss_free());
    // Four packets take 10 + 4 · 6 µs, and else 4 · 16.
    assert!(batched * 10 > single * 16, "{batched} and {single} packets/s");
    let at_10_us = [BATCHED.flooded(10_000).finished, unbatched().flooded(10_000).finished];
    assert!(at_10_us[0] > 100 && at_10_us[1] == 0, "{at_10_us:?}");
    let at_1_us = BATCHED.flooded(990);
    assert_eq!(at_1_us.finished, 0, "{at_1_us:?}");
}

/// Livelock §5.4.
#[test]
fn slower_code_lowers_the_loss_free_rate() {
    for pipeline in [BATCHED, polled()] {
        let rates =
            [5, 10, 20, 40, 80].map(|work| Pipeline { work: micros(work), ..pipeline.clone() }.loss_free());
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]), "{rates:?}");
    }
}

/// Livelock §6.5, and §8.1: no interrupt for each packet, and no queue. And beyond it the rate is kept.
#[test]
fn polling_raises_the_loss_free_rate_and_keeps_it() {
    let (interrupts, polls) = (BATCHED.loss_free(), polled().loss_free());
    assert!(polls > interrupts, "{interrupts} with interrupts, {polls} polled");
    let kept = polled().flooded(1_000).finished * 20;
    assert!(kept * 100 >= polls * 95, "{kept} of {polls} packets/s under a flood");
    assert_eq!(polled().flooded(1_000).at_queue, 0);
}

/// Livelock §8.1, over more than 10,000 packets in bursts of one to eight: the median packet is through earlier.
#[test]
fn the_median_packet_is_through_earlier_when_polled() {
    let median = |pipeline: &Pipeline| {
        let arrivals = (0..3_000u64).flat_map(|burst| {
            (0..1 + burst % 8).map(move |n| Timestamp::from_nanos(1_000_000 + 300_000 * burst + 700 * n))
        });
        let mut latencies = pipeline.run(arrivals, at(902_000)).latencies;
        latencies.sort();
        assert!(latencies.len() > 10_000);
        latencies[latencies.len() / 2]
    };
    let (interrupts, polls) = (median(&BATCHED), median(&polled()));
    assert!(polls < interrupts, "{polls:?} polled, {interrupts:?} queued");
}

/// Livelock §9: a monitor whose filter's queue leaves room for eight, opened by a tick alone. It never captures less with
/// feedback, and more beyond the rate that it keeps up with; there it loses some since the tick comes before the queue
/// is empty.
#[test]
fn feedback_raises_what_a_monitor_captures_and_its_ticks_lose_some() {
    let without = Pipeline { quota: Quota::new(8, 8), work: micros(200), ..BATCHED };
    let with =
        Pipeline { feedback: Some(FeedbackConfig::monitor(ROOM as u32, 8).unwrap()), ..without.clone() };
    let mut lost_at_queue = 0;
    for gap in [400_000, 250_000, 150_000, 100_000, 50_000, 20_000, 5_000, 2_000, 1_000] {
        let [without, with] = [&without, &with].map(|pipeline| pipeline.flooded(gap));
        assert!(with.finished >= without.finished, "gaps of {gap} ns: {without:?} {with:?}");
        if gap <= 5_000 {
            assert!(with.finished > without.finished, "gaps of {gap} ns");
            assert!(with.timed_out > 0 && with.at_queue < without.at_queue, "gaps of {gap} ns: {with:?}");
        }
        lost_at_queue += with.at_queue;
    }
    assert!(lost_at_queue > 0, "the tick always came late enough");
}

/// Livelock §5.1: without marks on a queue. Input stops when nothing comes of it.
#[test]
fn no_progress_is_a_ground_to_stop_input() {
    let finished =
        |ground, gap| Pipeline { quota: Quota::new(8, 8), ground, ..BATCHED }.flooded(gap).finished;
    assert_eq!(finished(Ground::None, 990), 0);
    // The first progress after a millisecond without any opens input again.
    let progress = finished(Ground::NoProgress, 990);
    assert!((40..=50).contains(&progress), "{progress}");
    // It leaves alone a source whose packets are handled in time.
    assert_eq!(finished(Ground::NoProgress, 47_300), finished(Ground::None, 47_300));
}

/// A flooded device whose turns cost 15 µs, and a packet 2: eight packets leave in each turn.
fn forwarder(until: u64) -> (std::rc::Rc<ManualClock>, Simulated, SourceId) {
    let costs =
        Costs { receive_turn: micros(10), packet: micros(2), transmit_turn: micros(5), ..Costs::default() };
    let (clock, mut poller) = simulated();
    let device = SimulatedDevice::new(&clock, costs, flood(1_000, until)).with_output(16, 64, Duration::ZERO);
    let config = SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>);
    let source = poller.add(device, config).unwrap();
    (clock, poller, source)
}

/// Livelock §6.6.2: a quota spreads a turn's cost, and what is too large starves the output. One peak.
#[test]
fn throughput_has_one_peak_over_the_quota() {
    let delivered = [1u32, 2, 4, 8, 16, 32, 64, 128].map(|quota| {
        let (clock, mut poller, source) = forwarder(101);
        poller.set_quota(source, Quota::new(quota, 8));
        while clock.now() < at(101_000) {
            poller.wait(None, forward).unwrap();
        }
        poller.device(source).sent()
    });
    assert!(delivered[..4].windows(2).all(|pair| pair[0] < pair[1]), "{delivered:?}");
    assert!(delivered[3..].windows(2).all(|pair| pair[0] > pair[1]), "{delivered:?}");
}

/// The quota that is found while running is that peak's, from the paper's first one and from ours.
#[test]
fn the_automatic_quota_climbs_to_the_peak() {
    for preset in [Preset::Paper, Preset::Measured] {
        let (clock, mut poller, source) = forwarder(2_000);
        let mut quota = AutoQuota::new(AutoQuotaConfig::preset(preset));
        let (mut window, mut sent) = (at(1_000), 0);
        while clock.now() < at(1_000_000) && !quota.is_at_rest() {
            poller.set_quota(source, Quota::new(quota.quota(), 8));
            window += Duration::from_millis(10);
            while clock.now() < window {
                poller.wait(None, forward).unwrap();
            }
            let before = std::mem::replace(&mut sent, poller.device(source).sent());
            quota.window(sent - before, true);
        }
        assert!(quota.is_at_rest() && quota.quota().abs_diff(8) <= 1, "{preset:?}: {quota:?}");
    }
}

/// Livelock §6.6.2: beside a flooded source, a packet of another one waits for its quota.
#[test]
fn a_higher_quota_raises_the_worst_latency() {
    let worst = [4, 16, 64, 256].map(|quota| {
        let (clock, mut poller) = simulated();
        let quota = Quota::new(quota, quota);
        let config = || SourceConfig::new(Box::new(BusyWait) as Box<dyn Policy>).with_quota(quota);
        poller.add(SimulatedDevice::new(&clock, Costs::default(), flood(500, 200)), config()).unwrap();
        let sparse = SimulatedDevice::new(&clock, Costs::default(), flood(317_000, 200));
        let sparse = poller.add(sparse, config()).unwrap();
        let mut worst = Duration::ZERO;
        while clock.now() < at(190_000) {
            poller
                .wait(None, |packet, outputs| {
                    if outputs.from() == sparse {
                        worst = worst.max(clock.now().saturating_duration_since(packet.arrived.unwrap()));
                    }
                })
                .unwrap();
        }
        worst
    });
    // A packet each µs: about the quota in µs.
    for (quota, worst) in [4, 16, 64, 256].into_iter().zip(worst) {
        assert!(worst > micros(quota) && worst < micros(quota + 12), "{quota}: {worst:?}");
    }
}

/// Livelock §7: beside a program that computes, without a limit it has nothing of the CPU; with one, about what the
/// limit leaves, less what is not counted as input: wake-ups and arming.
#[test]
fn a_limit_leaves_other_programs_somewhat_less_than_the_rest() {
    let left_to_others = |limit: Option<u32>| {
        let (clock, mut poller) = simulated();
        let device = SimulatedDevice::new(&clock, Costs::default(), flood(800, 1_001));
        let policy = Box::new(DelayBound::new(DelayBoundConfig::default())) as Box<dyn Policy>;
        poller.add(device, SourceConfig::new(policy)).unwrap();
        poller.limit_cpu(limit.map(|share| CpuLimitConfig::new(Percent::new(share).unwrap())));
        while clock.now() < at(1_000_000) {
            poller.wait(Some(at(1_000_000)), |_, _| clock.advance(micros(4))).unwrap();
        }
        poller.host().slept().as_micros() as u64 * 1_000 / 1_000_000
    };
    assert!(left_to_others(None) < 20, "thousandths");
    for share in [25, 50, 75] {
        let (rest, left) = (1_000 - 10 * u64::from(share), left_to_others(Some(share)));
        assert!(left < rest && left >= rest / 2, "{share}%: {left} thousandths of {rest}");
    }
}

/// Livelock §8.2.1: whoever reads what the packets brought, reads the first one of a burst when their share of the period
/// is used up at the latest.
#[test]
fn the_share_of_a_period_bounds_the_wait_of_the_first_packet() {
    let (clock, mut poller) = simulated();
    // At each time of the period some burst that takes almost 5 ms.
    let burst = |n: u64| (0..1_200).map(move |packet| Timestamp::from_nanos(30_070_000 * n + 100 * packet));
    let device = SimulatedDevice::new(&clock, Costs::default(), (1..133).flat_map(burst)).with_ring(4_096);
    poller.add(device, SourceConfig::new(Box::new(Interrupts) as Box<dyn Policy>)).unwrap();
    poller.limit_cpu(Some(CpuLimitConfig::new(Percent::new(20).unwrap())));
    let (mut first, mut waits) = (None, Vec::new());
    while clock.now() < at(4_000_000) {
        let mut received = |packet: &softtimers_net::poller::Packet<'_, ()>| {
            let number = u64::from_be_bytes(packet.bytes[..].try_into().unwrap());
            if number % 1_200 == 0 {
                first = packet.arrived;
            }
            clock.advance(micros(3));
        };
        poller.poll(|packet, _| received(&packet)).unwrap();
        let next = poller.idle(|packet, _| received(&packet)).unwrap();
        if next.is_none_or(|next| next > clock.now()) {
            // The poller sleeps, and the reader runs.
            waits.extend(first.take().map(|arrived| clock.now().saturating_duration_since(arrived)));
            let (source, device) = poller.devices().iter().next().unwrap();
            let arrival = device.next_arrival().filter(|_| poller.is_armed(source));
            clock.advance_to(next.into_iter().chain(arrival).min().unwrap_or(at(4_000_000)));
        }
    }
    assert_eq!(waits.len(), 132);
    // Two periods may meet in a burst, each with its 2 ms, and a turn of 64 packets goes over.
    let longest = *waits.iter().max().unwrap();
    assert!(longest <= 2 * micros(2_000) + micros(64 * 4 + 20), "{longest:?}");
    assert!(longest > micros(1_900), "the limit never mattered: {longest:?}");
}
