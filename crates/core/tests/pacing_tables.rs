//! Tables VIII and IX of soft timers: the mean gap of a paced flow beside a busy web server, against the
//! burst interval; and the baselines it is compared with.
//!
//! The trigger states come at the intervals of [`softtimers_core::WebServer`], whose fit uses how often a
//! trigger state follows so long after another: where a cell is above its target it says that the rule
//! costs nothing on top. The targets that are held, and relative re-arming, are not in the fit.

mod machine;

use core::time::Duration;

use machine::{Machine, Random};
use softtimers_core::{CatchUp, Config, PaceConfig, Rate, RateClock, Slack, SoftTimers, Strategy, Timestamp};

const BURST_INTERVALS: [u64; 6] = [12, 15, 20, 25, 30, 35];
/// The means of an independent model written from the paper's text. The paper's own 65.9 is its 66.5.
const MEANS: [(u64, [f64; 6]); 2] =
    [(40, [40.0, 41.6, 50.3, 55.5, 60.7, 66.5]), (60, [60.0, 60.0, 60.0, 60.0, 60.7, 66.5])];

/// The distribution of the gaps, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    mean: f64,
    deviation: f64,
    shortest: f64,
}

impl Gaps {
    fn from_departures(departures: &[Timestamp]) -> Self {
        let gap = |pair: &[Timestamp]| pair[1].saturating_duration_since(pair[0]).as_nanos() as f64 / 1e3;
        let count = (departures.len() - 1) as f64;
        let mean = departures.windows(2).map(gap).sum::<f64>() / count;
        let variance = departures.windows(2).map(|pair| (gap(pair) - mean).powi(2)).sum::<f64>() / count;
        let shortest = departures.windows(2).map(gap).fold(f64::MAX, f64::min);
        Gaps { mean, deviation: variance.sqrt(), shortest }
    }
}

/// The gaps in four seconds: 43,000 to 100,000 departures.
fn gaps(target: u64, burst: u64, strategy: Strategy) -> Gaps {
    let micros = Duration::from_micros;
    let rate = Rate::every(micros(target)).unwrap();
    let mut clock = RateClock::new(PaceConfig {
        burst_interval: Some(micros(burst)),
        catch_up: CatchUp::ALL,
        strategy,
        ..PaceConfig::new(rate)
    })
    .unwrap();
    let mut machine = Machine::one_shot(SoftTimers::new(Config::default().tick(Duration::from_nanos(1))));
    machine.timers.schedule_at(Timestamp::ZERO, clock.start(Timestamp::ZERO), Slack::DEFERRABLE, ());
    let mut random = Random::new(8);
    let mut departures = Vec::new();
    machine.run(
        Timestamp::from_micros(4_000_000),
        || Some(random.web_server_gap()),
        |timers, now, _| {
            departures.push(now);
            timers.schedule_at(now, clock.departed(now), Slack::DEFERRABLE, ());
        },
    );
    Gaps::from_departures(&departures)
}

/// Two-speed, the paper's rule: the target where the floor is below it, else the floor; and the spread of
/// the gaps, which shrinks with the burst interval where the target is held.
#[test]
#[cfg_attr(miri, ignore = "a million departures")]
fn the_two_speed_rule_gives_the_means_of_the_tables() {
    for (target, means) in MEANS {
        let row = BURST_INTERVALS.map(|burst| gaps(target, burst, Strategy::TwoSpeed));
        println!("target {target} µs: {row:.1?}");
        for (gaps, (burst, mean)) in row.iter().zip(BURST_INTERVALS.into_iter().zip(means)) {
            assert!(
                (gaps.mean - mean).abs() <= 0.5,
                "target {target}, burst interval {burst}: {gaps:?}, not {mean}"
            );
            assert!(gaps.shortest >= burst as f64, "target {target}, burst interval {burst}: {gaps:?}");
            assert!(
                (33.0..46.0).contains(&gaps.deviation),
                "target {target}, burst interval {burst}: {gaps:?}"
            );
        }
        let rises = |pair: &[Gaps]| pair[0].mean < pair[1].mean;
        let narrows = |pair: &[Gaps]| pair[0].deviation > pair[1].deviation;
        match target {
            40 => assert!(row.windows(2).all(rises), "{row:?}"),
            _ => assert!(row[..5].windows(2).all(narrows), "{row:?}"),
        }
    }
}

/// Table IX: 60 µs are held to a third of one up to a burst interval of 25 µs, and at 30 to one; then no longer.
#[test]
#[cfg_attr(miri, ignore = "half a million departures")]
fn a_target_of_60_us_is_held_up_to_a_burst_interval_of_30() {
    let means = BURST_INTERVALS.map(|burst| gaps(60, burst, Strategy::TwoSpeed).mean);
    assert!(means[..4].iter().all(|mean| (mean - 60.0).abs() <= 0.3), "{means:?}");
    assert!(means[4] <= 61.0 && (65.0..67.5).contains(&means[5]), "{means:?}");
}

/// §5.6, of intervals that are independent of each other: 33 to 35 µs at a target of 40, and from 44 down to 35 at 60,
/// where the paper has 30 to 35 for both.
#[test]
#[cfg_attr(miri, ignore = "a million departures")]
fn the_spread_of_the_gaps_is_that_of_independent_intervals() {
    let deviations = |target| BURST_INTERVALS.map(|burst| gaps(target, burst, Strategy::TwoSpeed).deviation);
    let (forty, sixty) = (deviations(40), deviations(60));
    assert!(forty.iter().all(|deviation| (33.0..36.0).contains(deviation)), "{forty:?}");
    assert!((42.5..45.0).contains(&sixty[0]) && (34.0..36.0).contains(&sixty[5]), "{sixty:?}");
    assert!(sixty[..5].is_sorted_by(|wide, narrow| wide > narrow), "{sixty:?}");
}

/// The rule that this project uses instead has the same means, and narrower gaps.
#[test]
#[cfg_attr(miri, ignore = "a million departures")]
fn the_exact_deadline_has_the_same_means() {
    for (target, means) in MEANS {
        for (burst, mean) in BURST_INTERVALS.into_iter().zip(means) {
            let gaps = gaps(target, burst, Strategy::ExactDeadline);
            assert!((gaps.mean - mean).abs() <= 0.5, "{target}, {burst}: {gaps:?}, not {mean}");
        }
    }
    let deviation = |strategy| gaps(60, 12, strategy).deviation;
    assert!(deviation(Strategy::ExactDeadline) + 2.0 < deviation(Strategy::TwoSpeed));
}

/// Without the adaptive step every delay is lost: the mean gap is the target and the mean delay.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand departures")]
fn relative_rearming_drifts() {
    for (target, mean) in [(40, 71.9), (60, 92.4)] {
        let gaps = gaps(target, 12, Strategy::Relative);
        println!("target {target} µs, relative: {gaps:.1?}");
        assert!((gaps.mean - mean).abs() <= 0.5, "{gaps:?}, not {mean}");
    }
}

/// Fixed in advance, the series has the mean whatever happens, and packets together.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand departures")]
fn a_fixed_series_keeps_the_mean_and_sends_packets_together() {
    for (target, _) in MEANS {
        let gaps = gaps(target, 12, Strategy::FixedSeries);
        assert!((gaps.mean - target as f64).abs() < 0.1 && gaps.shortest < 1.0, "{gaps:?}");
    }
}

/// A periodic interrupt that finds interrupts disabled is delivered when they are enabled again, but a
/// second one meanwhile is lost: the mean gap is target ÷ (1 − share lost), and the gaps are narrower than
/// those of soft timers.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand departures")]
fn a_hardware_timer_misses_its_target_by_what_it_loses() {
    for target in [40, 60] {
        let (mut random, mut departures, mut lost) = (Random::new(51), Vec::new(), 0u64);
        // Sections with interrupts disabled: one in 600 µs, up to 150 µs long.
        let (mut begin, mut enabled, mut pending_until, ticks) = (0, 0, 0, 100_000);
        for tick in (1..=ticks).map(|tick| tick * target * 1_000) {
            while begin <= tick {
                enabled = begin + random.below(150_000);
                begin = enabled + random.gamma(1, 525_000.0) as u64;
            }
            if tick < pending_until {
                lost += 1;
                continue;
            }
            departures.push(Timestamp::from_nanos(tick.max(enabled)));
            pending_until = enabled;
        }
        let gaps = Gaps::from_departures(&departures);
        let share = lost as f64 / ticks as f64;
        println!("target {target} µs, hardware: {gaps:.1?}, {:.1}% lost", share * 100.0);
        assert!((0.02..0.12).contains(&share), "{share}");
        assert!((gaps.mean - target as f64 / (1.0 - share)).abs() < 0.05, "{gaps:?}, {share}");
        assert!(gaps.deviation < 30.0, "{gaps:?}");
    }
}

/// The papers and the independent model agree on the trigger states: soft timers §5.2.
#[test]
#[cfg_attr(miri, ignore = "half a million logarithms")]
fn trigger_states_come_as_in_the_papers_web_server() {
    let mut random = Random::new(1);
    let mut gaps: Vec<f64> = (0..500_000).map(|_| random.web_server_gap().as_nanos() as f64 / 1e3).collect();
    gaps.sort_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
    let above = gaps.iter().filter(|&&gap| gap > 100.0).count() as f64 / count;
    let median = gaps[gaps.len() / 2];
    println!("mean {mean:.2}, median {median:.2}, deviation {deviation:.2}, {:.2}% above 100", above * 100.0);
    assert!((mean - 31.6).abs() < 0.3 && (median - 18.5).abs() < 0.5);
    assert!((deviation - 31.6).abs() < 1.0 && (above - 0.051).abs() < 0.003);
    assert!(gaps[gaps.len() - 1] <= 1_000.0);
}
