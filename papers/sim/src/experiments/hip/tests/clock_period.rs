//! The worth of a finer clock (§3), which depends on how the text is read.

use std::time::Duration;

use softtimers_poll::Factor;
use softtimers_poll::HipConfig;
use softtimers_poll::readings::Rounding;

use super::{READINGS, run, table_1, with};
use crate::engine::receiver::ReceiveStats;
use crate::experiments::hip::paper;
use crate::experiments::hip::scheme::Scheme;

/// With ticks of 10, 1 and 0.1 ms, on each trace.
fn by_tick(config: HipConfig) -> impl Iterator<Item = (&'static str, [ReceiveStats; 3])> {
    table_1(1).map(move |(row, trace)| {
        let tick = |micros| HipConfig { shortest: Duration::from_micros(micros), ..config };
        (row.name, [10_000, 1_000, 100].map(|micros| run(Scheme::Hip, &with(tick(micros)), &trace)))
    })
}

/// A period holds from the arrival that gave it: the finer the tick, the sooner the poll, at each step.
#[test]
fn by_the_event_reading_each_step_lessens_the_delay() {
    for (name, accounts) in by_tick(READINGS[1]) {
        let delays = accounts.each_ref().map(ReceiveStats::delay_us);
        assert!(delays.is_sorted_by(|coarse, fine| coarse > fine), "{name}: {delays:?}");
        let [_, one, tenth] = accounts.each_ref().map(ReceiveStats::overhead_us);
        assert!(tenth < one * 1.02, "{name}: {one} {tenth}");
    }
}

/// A period is cut to whole ticks, by half a tick on average: 10 ms are hopeless, but from 1 ms to 0.1 the half
/// millisecond that is no longer cut off makes polls fewer and delays longer.
#[test]
fn by_the_counter_reading_the_last_step_saves_polls_and_not_time() {
    for (name, accounts) in by_tick(READINGS[0]) {
        let [ten, one, tenth] = accounts.each_ref().map(ReceiveStats::delay_us);
        assert!(ten > one && one < tenth && tenth < 1.3 * one, "{name}: {ten} {one} {tenth}");
        let [_, one, tenth] = accounts.each_ref().map(ReceiveStats::overhead_us);
        let most = if name.starts_with("t-high") { 0.9 } else { 1.005 };
        assert!(tenth < one * most, "{name}: {one} {tenth}");
    }
    // It is the cutting that does it: rounded to the nearest tick, delays hardly differ.
    for (name, accounts) in by_tick(HipConfig { rounding: Rounding::Nearest, ..READINGS[0] }) {
        let [_, one, tenth] = accounts.each_ref().map(ReceiveStats::delay_us);
        assert!((0.95..1.06).contains(&(tenth / one)), "{name}: {one} {tenth}");
    }
}

/// At the overhead that a tick of 1 ms has, which a smaller φ gives, a finer one delays less in that reading too.
#[test]
fn by_the_counter_reading_the_delay_is_less_at_the_same_overhead() {
    for (paper::PaperTrace { name, .. }, trace) in table_1(1) {
        let [paper, finer] = [
            READINGS[0],
            HipConfig {
                phi: Factor::thousandths(1_500),
                shortest: Duration::from_micros(100),
                ..READINGS[0]
            },
        ]
        .map(|config| run(Scheme::Hip, &with(config), &trace));
        assert!(finer.delay_us() < paper.delay_us(), "{name}");
        assert!(finer.overhead_us() < paper.overhead_us() * 1.03, "{name}");
    }
}
