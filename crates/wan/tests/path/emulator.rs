//! The wide-area network of soft timers §5.7: 50 ms each way, a bottleneck of 50 or 100 Mbit/s, packets of
//! 1,500 bytes, and so products of bandwidth and delay of 5 and 10 Mbit.

use std::collections::BTreeSet;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{PathConfig, Queue, Wan, Way};

use super::{at, mbit, micros};

fn wan<T: Clone>(rate: u64, queue: Queue) -> Wan<T> {
    let wire = PathConfig::default().delay(Duration::from_millis(50));
    Wan::builder().both(wire.clone().queue(queue).bottleneck(mbit(rate))).down(wire).build().unwrap()
}

/// A round trip takes 100 ms within 1 ms, the rate is right within 1%: here both are exact.
//= ST-059 (soft timers §5.7)
#[test]
fn round_trip_and_rate_are_those_of_the_paper() {
    for (rate, each) in [(50, 240), (100, 120)] {
        let mut wan = wan(rate, Queue::packets(1_000));
        // A probe alone, then a stream that asks for 1% more than the link has.
        wan.offer(Timestamp::ZERO, Way::Up, 40, 0);
        let mut round_trip = None;
        let (mut next, mut packets) = (at(1_000_000), 0..20_000u32);
        loop {
            let now = wan.poll_at().map_or(next, |poll| poll.min(next));
            if now == next {
                let Some(packet) = packets.next() else { break };
                wan.offer(now, Way::Up, 1_500, packet + 1);
                next += micros(each) * 99 / 100;
            }
            while let Some((way, delivery)) = wan.pop_due(now) {
                match (way, delivery.packet) {
                    (Way::Up, 0) => drop(wan.offer(now, Way::Down, 40, 0)),
                    (Way::Down, _) => round_trip = Some(now.saturating_duration_since(Timestamp::ZERO)),
                    _ => {}
                }
            }
        }
        let round_trip = round_trip.unwrap();
        assert!(round_trip.abs_diff(Duration::from_millis(100)) < micros(1_000), "{round_trip:?}");
        let up = wan.direction(Way::Up);
        // From the stream's first packet on: the probe was a second before.
        assert_eq!(up.counters().queue_drops, 0);
        let late = up.measured().delay_ns().max().unwrap();
        // The last that came out has waited for 1% of those before it.
        let waited = Duration::from_nanos(late).saturating_sub(Duration::from_millis(50));
        let behind = waited.as_nanos() as f64 / f64::from(each as u32 * 1_000);
        assert!((behind / up.counters().delivered as f64 - 0.01).abs() < 0.001, "{behind}");
    }
}

/// A window of the product of bandwidth and delay fills the link and leaves the queue empty; half of it half
/// fills it; twice as much waits in the queue, for as long as a round trip.
//= ST-061 (soft timers §5.7)
#[test]
fn a_window_of_the_bandwidth_delay_product_fills_the_path() {
    for (rate, bits) in [(50, 5_000_000u64), (100, 10_000_000)] {
        let each = Duration::from_nanos(12_000_000 / rate);
        let full = (bits / 12_000) as u32;
        for (window, share, round_trip_ms) in [(full / 2, 50, 100), (full, 100, 100), (2 * full, 100, 200)] {
            let mut wan = wan(rate, Queue::packets(10_000));
            let mut open: BTreeSet<u32> = BTreeSet::new();
            let (mut sent, mut acknowledged, mut now) = (0, 0u64, Timestamp::ZERO);
            let end = at(10_000_000);
            while now < end {
                while open.len() < window as usize {
                    wan.offer(now, Way::Up, 1_500, (sent, now));
                    open.insert(sent);
                    sent += 1;
                }
                now = wan.poll_at().unwrap();
                while let Some((way, delivery)) = wan.pop_due(now) {
                    if way == Way::Up {
                        wan.offer(now, Way::Down, 40, delivery.packet);
                        continue;
                    }
                    let (packet, departed) = delivery.packet;
                    assert!(open.remove(&packet));
                    acknowledged += 1;
                    if now > at(5_000_000) {
                        let round_trip = now.saturating_duration_since(departed);
                        let expected = Duration::from_millis(round_trip_ms);
                        assert!(round_trip.abs_diff(expected) <= micros(1_000), "{window}: {round_trip:?}");
                    }
                }
            }
            let possible = end.as_nanos() / each.as_nanos() as u64;
            // Less what the first round trip did without.
            let reached = acknowledged * 100 / possible;
            assert!((share - 2..=share).contains(&reached), "{rate} Mbit/s, {window}: {reached}%");
        }
    }
}
