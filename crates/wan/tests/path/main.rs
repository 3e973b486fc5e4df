//! The model in virtual time: what it loses, delays and reorders is what it was told, and nothing else.
#![forbid(unsafe_code)]

mod emulator;
mod in_order;
mod managed;
mod scenarios;
mod shapes;
mod statistics;

use std::time::Duration;

use proptest::prelude::*;
use softtimers_core::Timestamp;
use softtimers_wan::{
    Admission, Bottleneck, Delivery, DeliveryTrace, Direction, GilbertElliott, Jitter, Limit, Loss,
    PathConfig, Probability, Queue, Spread, Wan, Way, properties,
};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn mbit(rate: u64) -> Bottleneck {
    Bottleneck::bits_per_second(rate * 1_000_000).unwrap()
}

fn direction<T: Clone>(path: PathConfig) -> Direction<T> {
    Direction::new(path, 42).unwrap()
}

/// Everything that comes out, taken when it is due.
fn drain<T: Clone>(direction: &mut Direction<T>) -> Vec<Delivery<T>> {
    let mut deliveries = vec![];
    while let Some(now) = direction.poll_at() {
        deliveries.extend(std::iter::from_fn(|| direction.pop_due(now)));
    }
    deliveries
}

/// A path with everything on.
fn rough() -> PathConfig {
    let burst = GilbertElliott::bursts(Probability::once_in(50), Probability::once_in(3));
    PathConfig {
        duplicate: Probability::once_in(20).into(),
        corrupt: Probability::once_in(10).into(),
        ..PathConfig::default()
    }
    .bottleneck(mbit(10))
    .queue(Queue::packets(30).marking(Limit::Time(micros(10_000))))
    .delay(micros(20_000))
    .jitter(Jitter::uniform(micros(3_000)).spread(Spread::Normal).reordering())
    .late(Probability::once_in(40), micros(7_000))
    .loss(Loss::GilbertElliott(burst))
}

/// Bit for bit, and a promise to later versions: the digest of all that came out of a rough path.
#[test]
fn a_seed_is_a_run() {
    let run = |seed| {
        let mut direction = Direction::new(rough(), seed).unwrap();
        for packet in 0..2_000u64 {
            direction.offer(at(packet * 997), 1_000, packet);
        }
        let fates = drain(&mut direction);
        let numbers = fates.iter().flat_map(|fate| {
            let bits = u64::from(fate.marked) + 2 * u64::from(fate.copy);
            [fate.packet, fate.due.as_nanos(), bits, fate.flipped.unwrap_or(u64::MAX)]
        });
        // FNV-1a, by whole numbers.
        numbers.fold(0xcbf2_9ce4_8422_2325u64, |hash, number| (hash ^ number).wrapping_mul(0x100_0000_01b3))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(7), SEED_7);
}

const SEED_7: u64 = 10_170_867_592_920_032_342;

/// 30 at once at 100 Mbit/s: one on the link, 20 wait, 9 are lost, whatever kind of limit says 20.
#[test]
fn a_burst_loses_what_does_not_fit() {
    let limits = [Limit::Packets(20), Limit::Bytes(30_000), Limit::Time(micros(20 * 120))];
    for limit in limits {
        let queue = Queue { limit, mark: None };
        let mut path = direction(PathConfig::default().bottleneck(mbit(100)).queue(queue).delay(micros(50)));
        let admissions: Vec<_> = (0..30).map(|packet| path.offer(at(5), 1_500, packet)).collect();
        assert_eq!(admissions[..21], [Admission::Accepted; 21], "{limit:?}");
        assert_eq!(admissions[21..], [Admission::QueueFull; 9], "{limit:?}");
        // The link takes 120 µs for each; room for one packet is there when it turns to the next.
        assert_eq!(path.offer(at(5 + 119), 1_500, 98), Admission::QueueFull);
        assert_eq!(path.offer(at(5 + 120), 1_500, 99), Admission::Accepted);
        assert_eq!(path.offer(at(5 + 120), 1_500, 100), Admission::QueueFull);
        let arrived: Vec<_> = drain(&mut path).into_iter().map(|d| (d.packet, d.due)).collect();
        let expected = (0..21).chain([99]).zip(1..).map(|(packet, turn)| (packet, at(5 + turn * 120 + 50)));
        assert!(arrived.iter().copied().eq(expected), "{limit:?}: {arrived:?}");
        assert_eq!(path.counters().queue_drops, 11);
    }
}

/// A recorded link loses what does not fit, too: it has a packet each millisecond.
#[test]
fn a_recorded_link_fills_its_queue_the_same_way() {
    for limit in [Limit::Packets(3), Limit::Bytes(4_500), Limit::Time(micros(3_500))] {
        let trace = Bottleneck::trace(DeliveryTrace::parse(b"1\n").unwrap());
        let queue = Queue { limit, mark: None };
        let mut path = direction(PathConfig::default().bottleneck(trace).queue(queue));
        let admitted = (0..9).filter(|&p| path.offer(at(500), 1_500, p) == Admission::Accepted).count();
        assert_eq!(admitted, 4, "{limit:?}");
        let due: Vec<_> = drain(&mut path).iter().map(|d| d.due).collect();
        // It begins with the first packet.
        assert_eq!(due, [1_500, 2_500, 3_500, 4_500].map(at));
    }
}

/// A queue that marks, marks what finds more than the threshold, and drops as before.
#[test]
fn marks_begin_at_their_threshold() {
    for mark in [Limit::Packets(4), Limit::Bytes(6_000), Limit::Time(micros(4 * 120))] {
        let queue = Queue::packets(8).marking(mark);
        let mut path = direction(PathConfig::default().bottleneck(mbit(100)).queue(queue));
        for packet in 0..12 {
            path.offer(at(0), 1_500, packet);
        }
        let marked: Vec<_> = drain(&mut path).iter().map(|d| d.marked).collect();
        assert_eq!(marked, [[false; 5].as_slice(), &[true; 4]].concat(), "{mark:?}");
        assert_eq!((path.counters().marked, path.counters().queue_drops), (4, 3));
    }
}

/// A million packets at a rate whose packet time is no whole number: the last is where it belongs.
#[test]
fn the_link_keeps_its_rate_to_the_nanosecond() {
    let bottleneck = Bottleneck::bits_per_second(99_999_989).unwrap();
    let mut path = direction(PathConfig::default().bottleneck(bottleneck).queue(Queue::packets(2)));
    let mut last = Timestamp::ZERO;
    let packets = 1_000_000u64;
    (0..3).for_each(|packet| assert_eq!(path.offer(Timestamp::ZERO, 1_499, packet), Admission::Accepted));
    for packet in 3..packets + 3 {
        let Some(now) = path.poll_at() else { break };
        let Some(delivery) = path.pop_due(now) else { panic!("nothing is due at {now:?}") };
        last = delivery.due;
        assert_eq!(path.offer(now, 1_499, packet), Admission::Accepted);
    }
    let exact = u128::from(packets) * 1_499 * 8_000_000_000 / 99_999_989;
    assert_eq!(u128::from(last.as_nanos()), exact);
    assert!(path.measured().rate_bps().unwrap().abs_diff(99_999_989) <= 1);
}

/// Set in mid-flight: nothing is lost, nothing changes places, the link goes on at the new rate.
#[test]
fn a_change_neither_loses_nor_reorders() {
    let slow = PathConfig::default().bottleneck(mbit(10)).delay(micros(50_000));
    let fast = slow.clone().bottleneck(mbit(100)).delay(micros(1_000)).queue(Queue::packets(0));
    let mut path = direction(slow);
    for packet in 0..10 {
        path.offer(at(0), 1_500, packet);
    }
    // Two are under way, and of the third half is sent.
    path.set(at(3_000), fast).unwrap();
    let arrivals: Vec<_> = drain(&mut path).iter().map(|d| (d.packet, d.due)).collect();
    // Those behind wait for the second, which is under way for 50 ms.
    let due: Vec<_> = [51_200].into_iter().chain([52_400; 9]).map(at).collect();
    assert!(arrivals.iter().copied().eq((0..10).zip(due)), "{arrivals:?}");
    let counters = path.counters();
    assert_eq!((counters.delivered, counters.reordered, counters.queue_drops), (10, 0, 0));

    let refused = path.set(at(9_000_000), PathConfig::default().jitter(Jitter::uniform(micros(2))));
    assert_eq!(refused.unwrap_err().to_string(), "a uniform jitter of 2µs is longer than the delay of 0ns");
    assert_eq!(path.path().delay, micros(1_000));
}

/// A program that is held up, and hands out before it reads, changes nothing as long as the delay is longer.
#[test]
fn late_reading_within_the_delay_changes_nothing() {
    let path = rough().jitter(Jitter::uniform(micros(3_000)).reordering());
    let (mut prompt, mut tardy) = (direction(path.clone()), direction(path));
    let (mut from_prompt, mut from_tardy) = (vec![], vec![]);
    for packet in 0..3_000u64 {
        // Nothing for a while, then 40 at once, at 10 Mbit/s with a queue of 30.
        let now = at(packet / 40 * 40_000);
        from_prompt.extend(std::iter::from_fn(|| prompt.pop_due(now)));
        from_tardy.extend(std::iter::from_fn(|| tardy.pop_due(now + micros(17_000))));
        assert_eq!(prompt.offer(now, 1_000, packet), tardy.offer(now, 1_000, packet));
    }
    from_prompt.extend(drain(&mut prompt));
    from_tardy.extend(drain(&mut tardy));
    assert_eq!(from_prompt, from_tardy);
    assert_eq!(prompt.counters(), tardy.counters());
    assert!(prompt.counters().queue_drops > 500 && prompt.counters().marked > 500);
}

/// A copy has no time on the link and a delay of its own; a flipped bit is one bit.
#[test]
fn copies_and_damage() {
    let always = Probability::ALWAYS;
    let path = PathConfig::default().bottleneck(mbit(100)).duplicate(always).corrupt(always);
    let mut path = direction(path.delay(micros(10)));
    let sent = vec![0u8; 1_500];
    path.offer(at(0), 1_500, sent.clone());
    path.offer(at(0), 1_500, sent.clone());
    let arrived = drain(&mut path);
    let due: Vec<_> = arrived.iter().map(|d| (d.due, d.copy)).collect();
    assert_eq!(due, [(at(130), false), (at(130), true), (at(250), false), (at(250), true)]);
    for delivery in arrived {
        let flipped: u32 = delivery.damaged().iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(flipped, 1);
    }
    assert_eq!((path.counters().duplicated, path.counters().corrupted), (2, 4));
}

/// The packets held have a limit in packets and one in bytes, and copies count.
#[test]
fn what_is_held_is_bounded_and_counted() {
    for (packets, bytes) in [(10, u64::MAX), (u32::MAX, 10_000)] {
        let path = PathConfig::default().delay(micros(1_000)).duplicate(Probability::ALWAYS);
        let mut path = direction(path.hold(packets, bytes));
        for packet in 0..1_000 {
            path.offer(at(packet), 1_000, packet);
        }
        let counters = path.counters();
        assert_eq!((counters.held, counters.duplicated), (10, 5));
        assert_eq!(counters.overflowed, 995);
        assert_eq!(drain(&mut path).len(), 10);
    }
}

/// A link so slow that its packets never come through, a delay that never ends.
#[test]
fn far_times_saturate() {
    let path = PathConfig::default().bottleneck(Bottleneck::bits_per_second(1).unwrap());
    let mut path = direction(path.delay(Duration::MAX).overhead(65_535).hold(u32::MAX, u64::MAX));
    for packet in 0..300 {
        path.offer(at(packet), u32::MAX, packet);
    }
    assert_eq!(path.poll_at(), Some(Timestamp::MAX));
    assert!(path.pop_due(at(1)).is_none());
}

/// Each direction has parameters and numbers of its own.
#[test]
fn directions_are_apart() {
    let half = PathConfig::default().loss(Loss::Random(Probability::once_in(2)));
    let mut wan = Wan::builder().both(half.delay(micros(5))).down(PathConfig::default()).build().unwrap();
    for packet in 0..1_000 {
        wan.offer(at(packet), Way::Up, 100, packet);
        wan.offer(at(packet), Way::Down, 100, packet);
    }
    while let Some(now) = wan.poll_at() {
        while wan.pop_due(now).is_some() {}
    }
    let [up, down] = [Way::Up, Way::Down].map(|way| wan.direction(way).counters());
    assert!((400..600).contains(&up.lost) && down.lost == 0 && down.delivered == 1_000);
    assert_eq!([Way::Up, Way::Down].map(|way| way.back().to_string()), ["down", "up"]);
}

/// A queue and a link, worked out from all packets before: when each is through, in units of a nanosecond
/// over the rate, so that nothing is rounded.
struct Plain {
    rate: u128,
    limit: Limit,
    /// The packets that were accepted: length, the time when the link is free for it, and the time when it is through.
    accepted: Vec<(u64, u128, u128)>,
}

impl Plain {
    fn offer(&mut self, now: u64, bytes: u64) -> bool {
        let free = self.accepted.last().map_or(0, |(_, _, through)| *through);
        let waits_at = |from: u128| from / self.rate > u128::from(now);
        let waiting = self.accepted.iter().filter(|(_, from, _)| waits_at(*from));
        let admitted = !waits_at(free)
            || match self.limit {
                Limit::Packets(most) => waiting.count() < most as usize,
                Limit::Bytes(most) => waiting.map(|(bytes, ..)| bytes).sum::<u64>() + bytes <= most,
                Limit::Time(most) => free / self.rate - u128::from(now) <= most.as_nanos(),
            };
        if admitted {
            let from = free.max(u128::from(now) * self.rate);
            self.accepted.push((bytes, free, from + u128::from(bytes) * 8_000_000_000));
        }
        admitted
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each packet is dropped or through when the plain model has it, to the nanosecond.
    #[test]
    fn the_queue_is_exact(
        bits_per_second in 1_000_000u64..1_000_000_000,
        limit in prop_oneof![
            (0u32..8).prop_map(Limit::Packets),
            (0u64..12_000).prop_map(Limit::Bytes),
            (0u64..400_000).prop_map(|nanos| Limit::Time(Duration::from_nanos(nanos))),
        ],
        packets in prop::collection::vec((0u64..200_000, 1u64..1_501), 1..60),
    ) {
        let bottleneck = Bottleneck::bits_per_second(bits_per_second).unwrap();
        let queue = Queue { limit, mark: None };
        let mut path = direction(PathConfig::default().bottleneck(bottleneck).queue(queue));
        let mut plain = Plain { rate: bits_per_second.into(), limit, accepted: vec![] };
        let mut now = 0;
        for (number, (gap, bytes)) in packets.into_iter().enumerate() {
            // Often at the same time as the one before.
            now += gap.saturating_sub(100_000);
            let admission = path.offer(Timestamp::from_nanos(now), bytes as u32, number);
            prop_assert_eq!(admission == Admission::Accepted, plain.offer(now, bytes));
        }
        let due: Vec<u128> = drain(&mut path).iter().map(|d| u128::from(d.due.as_nanos())).collect();
        let through: Vec<u128> = plain.accepted.iter().map(|(_, _, through)| through / plain.rate).collect();
        prop_assert_eq!(due, through);
    }

    /// However often one looks, whatever is set: the same, and all accounted for.
    #[test]
    fn any_run_adds_up_however_often_one_looks(seed: u64, script in prop::collection::vec(any::<u8>(), 0..1_200)) {
        properties::direction(seed, &script);
    }

    /// Any file is a recording or is refused at a line of its own.
    #[test]
    fn any_file_is_a_trace_or_refused(file in "[0-9]{1,4}(\r?\n[0-9 x]{0,4}){0,20}") {
        properties::trace(file.as_bytes());
    }

    /// And in order it is a recording.
    #[test]
    fn any_recording_lets_everything_through(mut times in prop::collection::vec(0u32..5_000, 1..40)) {
        times.sort_unstable();
        let lines: Vec<String> = times.iter().map(ToString::to_string).collect();
        properties::trace(lines.join("\n").as_bytes());
    }
}
