//! Packet pairs through a slow link with other traffic: the estimate is right where its confidence is high,
//! and where the method fails the confidence says so.

mod machine;

use core::time::Duration;

use machine::Random;
use softtimers_core::pace::StartRate;
use softtimers_core::{Capacity, PacketPairs, Percent, Rate, Timestamp};

/// A path with a link of 100 Mbit/s: 120 µs for 1,500 bytes.
struct Path {
    random: Random,
    /// Percent of pairs between which another packet gets at the slow link.
    cross_traffic: u64,
    /// Percent of pairs whose first packet waits further on, or whose ACKs come together.
    compressed: u64,
    /// The period that the receiver's times are rounded up to: it reads in groups.
    reads_each: Duration,
}

impl Path {
    fn pair(&mut self, now: Timestamp) -> Duration {
        let mut apart = 120_000;
        if self.random.below(100) < self.cross_traffic {
            let bytes = 40 + self.random.below(1_461);
            apart += bytes * 80;
        }
        if self.random.below(100) < self.compressed {
            apart -= self.random.below(apart);
        }
        let jitter = Duration::from_nanos(self.random.below(4_000));
        let first = self.read_at(now);
        self.read_at(now + Duration::from_nanos(apart) + jitter).saturating_duration_since(first)
    }

    fn read_at(&self, arrival: Timestamp) -> Timestamp {
        Timestamp::from_nanos(arrival.as_nanos().next_multiple_of(self.reads_each.as_nanos() as u64))
    }

    /// The estimates after 32 pairs each, from many such groups.
    fn estimates(mut self) -> Vec<Option<Capacity>> {
        let rounds = if cfg!(miri) { 3 } else { 100 };
        (0..rounds)
            .map(|_| {
                let mut pairs = PacketPairs::new();
                for pair in 0..32 {
                    pairs.record(1_500, self.pair(Timestamp::from_nanos(pair * 7_777_777)));
                }
                pairs.capacity()
            })
            .collect()
    }
}

fn path(cross_traffic: u64, compressed: u64, reads_each: Duration) -> Path {
    Path { random: Random::new(6), cross_traffic, compressed, reads_each }
}

const AT_ONCE: Duration = Duration::from_nanos(1);

#[test]
fn the_estimate_is_the_slow_link_whatever_some_of_the_pairs_met() {
    for (cross_traffic, compressed) in [(0, 0), (30, 0), (0, 30), (25, 25)] {
        for capacity in path(cross_traffic, compressed, AT_ONCE).estimates() {
            let capacity = capacity.unwrap();
            assert!(capacity.confidence >= Percent::new(30).unwrap(), "{capacity:?}");
            let off = capacity.bits_per_second.abs_diff(100_000_000);
            assert!(off <= 100_000_000 / 16, "{capacity:?}");
        }
    }
}

#[test]
fn what_interferes_lowers_the_confidence() {
    let confidence = |cross_traffic, compressed| {
        let estimates = path(cross_traffic, compressed, AT_ONCE).estimates();
        let sum = estimates.iter().map(|capacity| u64::from(capacity.unwrap().confidence.get())).sum::<u64>();
        sum / estimates.len() as u64
    };
    let quiet = confidence(0, 0);
    let busy = confidence(40, 0);
    let worse = confidence(40, 60);
    assert!(quiet == 100 && busy < 80 && worse < busy, "{quiet}, {busy}, {worse}");
}

/// A receiver that reads once in a millisecond sees most pairs together, and the rest a millisecond apart.
#[test]
fn a_receiver_that_reads_in_groups_measures_nothing() {
    let estimates = path(0, 0, Duration::from_millis(1)).estimates();
    assert!(estimates.iter().all(Option::is_none), "{estimates:?}");
}

/// Soft timers §5.7: begin with a fraction of what was estimated.
#[test]
fn a_train_begins_at_a_fraction_of_the_estimate() {
    let mut start = StartRate::new(Rate::per_second(100).unwrap(), Percent::HALF).unwrap();
    let capacity = path(10, 10, AT_ONCE).estimates()[0].unwrap();
    start.set_capacity(capacity.rate(1_500).unwrap()).unwrap();
    let interval = start.rate(Timestamp::ZERO).interval();
    assert!(interval.abs_diff(Duration::from_micros(240)) < Duration::from_micros(12), "{interval:?}");
}
