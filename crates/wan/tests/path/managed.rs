//! Managed queues in a direction: what they drop, and what they leave alone.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{Aqm, Bottleneck, CodelConfig, Direction, FqCodelConfig, PathConfig, PieConfig};

/// 1,500 bytes are 24 ms of it: a single packet that waits is more than the target of either.
const KBIT_500: u64 = 500_000;

fn managed(bits_per_second: u64, aqm: Aqm) -> Direction<()> {
    let link = Bottleneck::bits_per_second(bits_per_second).unwrap();
    Direction::new(PathConfig::default().bottleneck(link).aqm(aqm), 1).unwrap()
}

/// Offers `bursts` bursts of `packets` packets, `gap` apart; returns the time after the last gap.
fn bursts(
    direction: &mut Direction<()>,
    begin: Timestamp,
    bursts: u32,
    packets: u32,
    gap: Duration,
) -> Timestamp {
    for burst in 0..bursts {
        let now = begin + gap * burst;
        for _ in 0..packets {
            direction.offer(now, 1_500, ());
        }
        while direction.pop_due(now).is_some() {}
    }
    begin + gap * bursts
}

fn pie() -> Aqm {
    Aqm::Pie(PieConfig::default())
}

/// Five packets are through in 120 ms, so each burst meets an idle link.
#[test]
fn bursts_that_meet_an_idle_link_are_let_through() {
    for gap in [200, 1_000, 10_000] {
        let mut direction = managed(KBIT_500, pie());
        bursts(&mut direction, Timestamp::ZERO, 2_000, 5, Duration::from_millis(gap));
        assert_eq!(direction.counters().queue_drops, 0, "every {gap} ms");
    }
}

#[test]
fn a_silence_ends_what_an_overload_began() {
    let mut direction = managed(KBIT_500, pie());
    // Twice the rate for a minute.
    let now = bursts(&mut direction, Timestamp::ZERO, 5_000, 1, Duration::from_millis(12));
    let drops = direction.counters().aqm_drops;
    assert!(drops > 1_000, "{drops}");
    let silence = Duration::from_secs(20);
    bursts(&mut direction, now + silence, 50, 5, silence);
    assert_eq!(direction.counters().aqm_drops, drops);
}

/// Packets as long as Ethernet allows with a tag, and 50 bytes of overhead each: the one behind is not spared.
#[test]
fn the_last_packet_is_not_dropped_however_long_it_is_on_the_link() {
    let path = managed(100_000, Aqm::Codel(CodelConfig::default())).path().clone().overhead(50);
    let mut direction = Direction::new(path, 1).unwrap();
    let mut now = Timestamp::ZERO;
    // One on the link and two behind it, each for longer than the target.
    for _ in 0..3 {
        direction.offer(now, 1_518, ());
    }
    for _ in 0..500 {
        now = direction.next_departure().unwrap();
        while direction.pop_due(now).is_some() {}
        direction.offer(now, 1_518, ());
    }
    assert_eq!(direction.counters().aqm_drops, 0, "a drop would have left one");
}

/// A drop is of the time at which the link was free, whenever somebody looks.
#[test]
fn how_often_one_looks_does_not_change_when_a_drop_was() {
    for aqm in [Aqm::Codel(CodelConfig::default()), Aqm::FqCodel(FqCodelConfig::default())] {
        let dropped = |look: Duration| {
            let (mut direction, mut now, mut dropped) = (managed(KBIT_500, aqm), Timestamp::ZERO, vec![]);
            direction.keep_lost();
            for _ in 0..200 {
                direction.offer(now, 1_500, ());
            }
            while direction.poll_at().is_some() {
                now += look;
                while direction.pop_due(now).is_some() {}
                dropped.extend(std::iter::from_fn(|| direction.pop_lost()).map(|(at, ())| at));
            }
            dropped
        };
        let [often, rarely] = [1, 1_000].map(Duration::from_millis).map(dropped);
        assert!(often.len() > 5 && often == rarely, "{often:?} {rarely:?}");
    }
}
