extern crate std;

use alloc::vec::Vec;
use core::time::Duration;

use super::super::{Factor, Preset};
use super::*;
use crate::nanos::Nanos;
use softtimers_core::Random;

const PAPER: HipConfig = HipConfig::preset(Preset::Paper);

const fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn look(hip: &mut Hip, time: u64, found: u32) -> Next {
    hip.looked(&Look { began: at(time), ended: at(time), found })
}

/// Packets at these times, each taken by an interrupt at once.
fn interrupted(config: HipConfig, times: impl IntoIterator<Item = u64>) -> Hip {
    let mut hip = Hip::new(config);
    for time in times {
        hip.arrived(at(time));
        look(&mut hip, time, 1);
    }
    hip
}

/// Gaps and σ/I on the boundary and beside it: eq. 3 and eq. 4 are complements, and strict.
#[test]
fn the_state_table_has_no_gap_and_no_overlap() {
    // With α = β = 0 the mean is the last gap and σ is 0 against the updated mean, |I − D| against the previous.
    let exact = HipConfig {
        alpha: Factor::thousandths(0),
        beta: Factor::thousandths(0),
        mean: Mean::Previous,
        ..PAPER
    };
    // (gap before, last gap): I = last gap, σ = |gap before − last gap|, γ = 2, T_max = 10 ms.
    for ((before, last), polls) in [
        ((3_000, 1_001), true),    // σ/I = 1.997
        ((3_000, 1_000), false),   // σ/I = 2
        ((3_000, 999), false),     // σ/I = 2.003
        ((9_999, 9_999), true),    // I below T_max
        ((10_000, 10_000), false), // I = T_max
        ((10_001, 10_001), false),
        ((2_000, 2_000), true),
    ] {
        let hip = interrupted(exact, [0, before, before + last]);
        assert_eq!(hip.polls(), polls, "gaps of {before} and {last} µs");
    }
}

#[test]
fn the_counter_is_loaded_at_the_poll_and_counts_ticks() {
    // Packets each 2.6 ms, at odd times: I = 2.6 ms, σ = 0, T_P = 2 ticks.
    let mut hip = interrupted(PAPER, (0..40).map(|n| 300 + n * 2_600));
    assert_eq!(hip.period(), Duration::from_millis(2));
    // The last at 101.7 ms: ticks at 102 and 103.
    assert_eq!(hip.next(), Next::At(at(103_000)));
    hip.arrived(at(102_100));
    assert_eq!(hip.next(), Next::At(at(103_000)), "an arrival changes nothing before the poll");
    assert!(matches!(look(&mut hip, 103_000, 1), Next::At(_)));
}

#[test]
fn the_event_reading_moves_the_poll_at_each_arrival() {
    let mut hip = interrupted(HipConfig::event(), (0..40).map(|n| 300 + n * 2_600));
    assert_eq!(hip.period(), Duration::from_millis(3), "2.6 ms, to the nearest");
    assert_eq!(hip.next(), Next::At(at(104_000)));
    // A gap of 0.1 ms makes I small and σ large.
    hip.arrived(at(101_800));
    let Next::At(moved) = hip.next() else { panic!("still polling") };
    assert_ne!(moved, at(104_000));
    // A poll whose time has passed is at the next tick.
    let mut late = interrupted(HipConfig::event(), (0..40).map(|n| n * 9_000));
    for time in [359_000, 359_010, 359_020, 359_030, 359_040, 359_050, 359_060, 359_070] {
        late.arrived(at(time));
    }
    assert_eq!(late.next(), Next::At(at(360_000)));
}

#[test]
fn a_poll_that_an_arrival_makes_late_is_at_once_if_asked_for() {
    let unsaid = Unsaid { late_polls_at_once: true, ..Unsaid::DEFAULT };
    let config = HipConfig { unsaid, ..HipConfig::event() };
    let mut hip = interrupted(config, (0..40).map(|n| n * 9_000));
    for time in [359_000, 359_010, 359_020, 359_030, 359_040, 359_050, 359_060, 359_070] {
        hip.arrived(at(time));
    }
    assert_eq!(hip.next(), Next::At(at(359_070)));
}

#[test]
fn an_arrival_ends_polling_at_once_where_it_decides() {
    let mut hip = interrupted(HipConfig { decides: Decides::Arrival, ..PAPER }, (0..40).map(|n| n * 2_000));
    hip.arrived(at(80_000));
    assert!(hip.polls(), "as regular as before");
    hip.arrived(at(130_000));
    assert_eq!(hip.next(), Next::Armed);
    assert_eq!(hip.stats().switches, 2);
}

#[test]
fn a_period_that_is_not_rounded_counts_from_the_look_or_from_the_tick_before_it() {
    for (unrounded_from_tick, next) in [(false, 104_300), (true, 103_600)] {
        let unsaid = Unsaid { unrounded_from_tick, ..Unsaid::DEFAULT };
        let config = HipConfig { rounding: Rounding::None, unsaid, ..PAPER };
        let hip = interrupted(config, (0..40).map(|n| 300 + n * 2_600));
        assert_eq!(hip.next(), Next::At(at(next)));
    }
}

#[test]
fn a_longest_period_bounds_the_wait_also_where_it_is_no_multiple_or_less_than_the_shortest() {
    let longest = Duration::from_micros(10_500);
    let hip = Hip::new(HipConfig { longest, rounding: Rounding::Up, ..PAPER });
    assert_eq!(hip.period(), Duration::from_millis(10));
    let time = Some(Duration::from_micros(50));
    let hip = Hip::with(PolicySettings { time, ..PolicySettings::default() }).unwrap();
    assert_eq!(hip.period(), Duration::from_micros(50));
}

#[test]
fn polls_in_vain_end_in_a_reset() {
    let mut hip = interrupted(PAPER, (0..40).map(|n| n * 2_000));
    for poll in 1..10 {
        assert!(matches!(look(&mut hip, 80_000 + poll * 1_000, 0), Next::At(_)), "after {poll}");
    }
    assert_eq!(look(&mut hip, 90_000, 0), Next::Armed);
    assert_eq!(hip.gaps().mean_nanos(), 10_000_000);
    assert_eq!(hip.gaps().deviation_nanos(), 0);
    let HipStats { interrupts, by_interrupt, polls, by_poll, unsuccessful, switches, resets } = hip.stats();
    assert_eq!((resets, switches, unsuccessful), (1, 2, 10));
    // Each look before has found one packet.
    assert!(interrupts > 0 && by_interrupt == interrupts && by_poll > 0 && by_poll + 10 == polls);
    assert_eq!(by_interrupt + by_poll, 40);
    assert_eq!(Named::switches(&hip), 2);
    // The gap across the reset counts: 0.3 · 10 + 0.7 · 42.
    hip.arrived(at(120_000));
    assert_eq!(hip.gaps().mean_nanos(), 32_400_000);
}

#[test]
fn a_packet_found_makes_polls_in_vain_start_anew() {
    let mut hip = interrupted(PAPER, (0..40).map(|n| n * 2_000));
    for poll in 0..9 {
        look(&mut hip, 80_000 + poll * 1_000, 0);
    }
    hip.arrived(at(89_500));
    // The gap of 11.5 ms is long, so interrupts may follow; P_U starts at zero either way.
    look(&mut hip, 90_000, 1);
    assert_eq!(hip.unsuccessful, 0);
}

#[test]
fn periods_are_ticks_within_their_bounds() {
    let mut random = Random::stream(7, 0);
    for rounding in [Rounding::Nearest, Rounding::Up, Rounding::Down] {
        let mut hip = Hip::new(HipConfig { rounding, ..PAPER });
        let mut time = 0;
        for _ in 0..2_000 {
            time += random.next_u64() % 30_000;
            hip.arrived(at(time));
            let period = hip.period();
            assert!((PAPER.shortest..=PAPER.longest).contains(&period), "{period:?}");
            assert_eq!(period.as_nanos() % 1_000_000, 0);
        }
    }
}

/// The paper's eq. 1 and 2 in floating point, in nanoseconds: I = αI + (1 − α)D, σ² = βσ² + (1 − β)(I − D)².
struct Estimate {
    mean: f64,
    variance: f64,
}

impl Estimate {
    fn arrived(&mut self, gap: f64, mean: Mean) {
        let before = self.mean;
        self.mean = 0.3 * self.mean + 0.7 * gap;
        let against = if mean == Mean::Updated { self.mean } else { before };
        self.variance = 0.3 * self.variance + 0.7 * (against - gap) * (against - gap);
    }

    fn period(&self) -> f64 {
        self.mean + 2.5 * self.variance.sqrt()
    }
}

/// Gaps of 0.2 to 3 ms: the margin φσ is mostly more than a quarter of a tick, and the period within its bounds.
#[test]
fn the_period_is_the_mean_and_a_margin_of_the_spread_in_ticks() {
    const TICK: f64 = 1e6;
    type Rounded = fn(f64) -> f64;
    let roundings: [(Rounding, Rounded); 3] =
        [(Rounding::Down, f64::floor), (Rounding::Up, f64::ceil), (Rounding::Nearest, f64::round)];
    for mean in [Mean::Updated, Mean::Previous] {
        let mut hips = roundings.map(|(rounding, _)| Hip::new(HipConfig { rounding, mean, ..PAPER }));
        let mut exact = Hip::new(HipConfig { rounding: Rounding::None, mean, ..PAPER });
        let mut estimate = Estimate { mean: 10e6, variance: 0.0 };
        let (mut random, mut time, mut wide) = (Random::stream(5, 0), Timestamp::ZERO, 0);
        exact.arrived(time);
        hips.iter_mut().for_each(|hip| hip.arrived(time));
        for _ in 0..2_000 {
            let gap = 200_000 + random.below(2_800_000);
            time = time.after(gap);
            estimate.arrived(gap as f64, mean);
            let wanted = estimate.period().clamp(TICK, 10.0 * TICK);
            wide += u32::from(wanted > estimate.mean + TICK / 4.0 && wanted < 10.0 * TICK);
            exact.arrived(time);
            let found = exact.period().as_nanos() as f64;
            // What is rounded down in each step: a few nanoseconds, which φ makes more of.
            assert!((found - wanted).abs() < 50.0, "{found} instead of {wanted}");
            for ((rounding, round), hip) in roundings.iter().zip(&mut hips) {
                hip.arrived(time);
                let ticks = hip.period().as_nanos() as f64 / TICK;
                // Between the ticks that it could be, a hair beside the limit.
                let (low, high) = (round((wanted - 50.0) / TICK), round((wanted + 50.0) / TICK));
                assert!(ticks == low || ticks == high.min(10.0), "{rounding:?}: {ticks} ticks of {wanted}");
            }
        }
        assert!(wide > 1_000, "{wide} margins of more than a quarter");
    }
}

/// After a reset nothing is left of the spread: gaps of 0.4 and 3.6 ms before do not lengthen a period after it.
#[test]
fn a_reset_forgets_the_spread_unless_the_estimate_is_kept() {
    for deviation in [Deviation::Standard, Deviation::MeanError] {
        for first_mean in [FirstMean::Longest, FirstMean::Shortest, FirstMean::Kept] {
            let config = HipConfig { deviation, first_mean, ..PAPER };
            let mut hip = interrupted(config, (0..40).flat_map(|n| [n * 4_000, n * 4_000 + 400]));
            assert!(hip.polls(), "{config:?}");
            let (mean, spread) = (hip.gaps().mean_nanos(), hip.gaps().deviation_nanos());
            assert!(spread > 500_000, "{spread}");
            let mut time = 160_000;
            while hip.polls() {
                time += 10_000;
                look(&mut hip, time, 0);
            }
            let after = (hip.gaps().mean_nanos(), hip.gaps().deviation_nanos());
            match first_mean {
                FirstMean::Longest => assert_eq!(after, (10_000_000, 0)),
                FirstMean::Shortest => assert_eq!(after, (1_000_000, 0)),
                FirstMean::Kept => assert_eq!(after, (mean, spread)),
            }
        }
    }
}

/// The gap in which a reset falls counts, or the next packet is as the first.
#[test]
fn the_gap_of_a_reset_counts_if_it_is_to() {
    for (idle_gap_counts, mean) in [(true, 32_400_000), (false, 10_000_000)] {
        for first_mean in [FirstMean::Longest, FirstMean::Kept] {
            let mut hip =
                interrupted(HipConfig { idle_gap_counts, first_mean, ..PAPER }, (0..40).map(|n| n * 2_000));
            for poll in 1..=10 {
                look(&mut hip, 80_000 + poll * 1_000, 0);
            }
            let before = hip.gaps().mean_nanos();
            hip.arrived(at(120_000));
            match first_mean {
                FirstMean::Kept if idle_gap_counts => assert!(hip.gaps().mean_nanos() > 10 * before),
                FirstMean::Kept => assert_eq!(hip.gaps().mean_nanos(), before),
                _ => assert_eq!(hip.gaps().mean_nanos(), mean),
            }
        }
    }
}

#[test]
fn polling_only_never_gives_up() {
    let mut hip = Hip::new(PAPER.polling_only());
    assert_eq!(hip.next(), Next::Now);
    for poll in 0..100 {
        assert!(matches!(look(&mut hip, poll * 10_000, 0), Next::At(_)));
    }
    assert_eq!((hip.stats().switches, hip.stats().unsuccessful), (0, 100));
}

/// HIP §1, §4: T_max is the tolerated latency, however many packets wait for one poll.
#[test]
fn no_packet_waits_longer_than_the_longest_period_and_a_tick() {
    let mut random = Random::stream(11, 0);
    for config in [PAPER, HipConfig::event(), HipConfig::default()] {
        let most = (config.longest + config.shortest).as_nanos() as u64;
        let (mut hip, mut waiting, mut most_at_once) = (Hip::new(config), Vec::new(), 0);
        let mut look = |hip: &mut Hip, at: u64, waiting: &mut Vec<u64>| {
            for arrival in waiting.iter() {
                assert!(at - arrival <= most, "{} ns", at - arrival);
            }
            most_at_once = most_at_once.max(waiting.len());
            let at = Timestamp::from_nanos(at);
            hip.looked(&Look { began: at, ended: at, found: waiting.len() as u32 });
            waiting.clear();
        };
        let mut arrival = 1_000_000u64;
        for _ in 0..20_000 {
            // Three of four come close behind another, as the packets of a train do.
            let gap = if random.below(4) == 0 { 3_000_000 } else { 100_000 };
            let next = arrival + 1 + random.below(gap);
            while let Some(poll) = poll_before(&hip, next) {
                look(&mut hip, poll.max(arrival), &mut waiting);
            }
            arrival = next;
            waiting.push(arrival);
            hip.arrived(Timestamp::from_nanos(arrival));
            // No poll is scheduled: an interrupt.
            if !matches!(hip.next(), Next::At(_)) {
                look(&mut hip, arrival, &mut waiting);
            }
        }
        assert!(most_at_once >= 5, "{most_at_once} at most for one poll");
    }
}

/// Returns when it polls, if that is before the next arrival.
fn poll_before(hip: &Hip, arrival: u64) -> Option<u64> {
    match hip.next() {
        Next::At(poll) => Some(poll.as_nanos()).filter(|&poll| poll < arrival),
        _ => None,
    }
}

/// HIP §4: the mean error of the prediction instead of the variance, on streams of every kind.
#[test]
fn the_cheaper_deviation_decides_alike() {
    let (mut same, mut all) = (0u32, 0u32);
    let mut random = Random::stream(3, 0);
    for mean in [300_000u64, 2_500_000, 3_100_000, 20_000_000, 68_000_000, 300_000_000] {
        let mut hips = [Deviation::Standard, Deviation::MeanError]
            .map(|deviation| Hip::new(HipConfig { deviation, ..PAPER }));
        let mut time = Timestamp::ZERO;
        for packet in 0..4_000u32 {
            // Bursts of a few packets, and pauses between them.
            let share = if packet % 7 == 0 { 4 } else { 1 };
            let gap = u128::from(random.exponential()) * u128::from(mean * share / 2);
            time = time.after((gap / u128::from(Random::ONE)) as u64);
            let decisions = hips.each_mut().map(|hip| {
                hip.arrived(time);
                hip.is_worth_polling()
            });
            same += u32::from(decisions[0] == decisions[1]);
            all += 1;
        }
    }
    assert!(same * 100 >= all * 95, "{same} of {all}");
}

/// HIP's Table 2.
#[test]
fn the_papers_parameters_are_those_of_its_table() {
    assert_eq!((PAPER.shortest, PAPER.longest), (Duration::from_millis(1), Duration::from_millis(10)));
    let (history, gamma, phi) =
        (Factor::thousandths(300), Factor::thousandths(2_000), Factor::thousandths(2_500));
    assert_eq!((PAPER.alpha, PAPER.beta, PAPER.gamma, PAPER.phi), (history, history, gamma, phi));
    assert_eq!(PAPER.unsuccessful, 10);
}

#[test]
fn the_costs_of_the_papers_are_theirs() {
    let nanos = |costs: Costs| {
        [costs.interrupt, costs.poll, costs.transfer, costs.switch].map(|cost| cost.as_nanos())
    };
    assert_eq!(nanos(Costs::HIP), [5_000, 500, 500, 1_000]);
    assert_eq!(nanos(Costs::CM5), [19_000, 600, 1_000, 4_300]);
    let interrupt = |bytes| Costs::HIP.interrupt_period(bytes).as_nanos();
    // The interrupts-only column of Table 3, from the mean lengths of Table 1.
    let column = [904, 949, 421, 561, 90, 101].map(|bytes| (interrupt(bytes) + 50) / 100);
    assert_eq!(column, [53, 53, 51, 52, 50, 50]);
    assert_eq!(Costs::CM5.poll_period(1_500), Duration::from_nanos(1_600));
    assert_eq!(Costs::MANNA.guess_unsuccessful(), 11);
    assert_eq!(HipConfig::preset(Preset::Measured).unsuccessful, 39);
}

/// An interrupt of 200 µs is longer than the shortest period of 100: the poll falls due in the middle of it,
/// and begins after it.
#[test]
fn a_poll_does_not_begin_before_the_look_before_it_has_ended() {
    for config in [PAPER, HipConfig { rounding: Rounding::None, ..PAPER }, HipConfig::event()] {
        let mut hip = Hip::new(HipConfig { shortest: Duration::from_micros(100), ..config });
        let mut polls = 0;
        for packet in 1..=200 {
            let began = Timestamp::from_micros(110 * packet + 90);
            let ended = began + Duration::from_micros(200);
            hip.arrived(began);
            if let Next::At(poll) = hip.looked(&Look { began, ended, found: 1 }) {
                assert!(poll >= ended, "{config:?}: {poll:?} before {ended:?}");
                polls += 1;
            }
        }
        assert!(polls > 100, "{polls}");
    }
}
