//! The gate on a clock that the test moves. `quinn` below does what its driver does, in the same order.

use std::time::Duration;

use softtimers_core::{Clock, ManualClock, Random, Timestamp};

use super::*;

/// 12.5 bytes/µs: a packet of 1,250 bytes each 100 µs.
const WINDOW: Window = window(200_000, 18_000);

const fn window(bytes: u64, micros: u64) -> Window {
    let round_trip = Duration::from_micros(micros);
    Window { bytes, round_trip, first: false, queue: Some(Duration::ZERO), pacing_bps: None }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn gate() -> Gate {
    Gate::new(GateConfig::default())
}

/// Builds a transmit and lets it leave; returns how long that took.
fn send(gate: &mut Gate, clock: &ManualClock, asked: Option<Window>, packets: u32, bytes: u32) -> Duration {
    let built = clock.now();
    gate.begin(10);
    asked.into_iter().for_each(|window| gate.asked(window));
    for _ in 0..2 {
        gate.waits_until().into_iter().for_each(|until| clock.advance_to(until));
        if gate.offer(clock.now(), packets, bytes) == Verdict::Leave {
            gate.departed(clock.now(), packets, bytes);
            return clock.now().saturating_duration_since(built);
        }
    }
    panic!("refused when its time had come");
}

#[test]
fn pairs_leave_at_the_rate_of_the_window() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(1_000)));
    for pair in 0..1_000u64 {
        send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
        // By the timer, which is a quarter of a gap behind.
        assert_eq!(clock.now(), at(1_000 + 200 * pair + if pair > 0 { 50 } else { 0 }));
    }
    assert_eq!(gate.take_counters().gated, 999);
    assert_eq!(gate.rate_bps().map(|rate| rate / 1_000), Some(100_000));
}

#[test]
fn the_first_window_takes_half_a_round_trip() {
    let first = Window { first: true, ..window(100_000, 20_000) };
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    (0..11).for_each(|_| _ = send(&mut gate, &clock, Some(first), 1, 1_000));
    assert_eq!(clock.now(), at(1_025)); // ten gaps of 100 µs
}

#[test]
fn a_controller_that_paces_is_believed() {
    let paced = Window { pacing_bps: Some(80_000_000), ..WINDOW };
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    (0..11).for_each(|_| _ = send(&mut gate, &clock, Some(paced), 1, 1_000));
    assert_eq!(clock.now(), at(1_025));
}

/// With a rate that was measured while no packet could leave, an eighth of a window still leaves in each
/// round trip.
#[test]
fn a_paced_controller_does_not_crawl() {
    for pacing in [0, 1, 1_000] {
        let crawling = Window { pacing_bps: Some(pacing), ..WINDOW };
        let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
        (0..21).for_each(|_| _ = send(&mut gate, &clock, Some(crawling), 1, 1_250));
        assert!(clock.now() < at(18_500), "{:?}", clock.now());
    }
    // Before the first ACK there is no such floor.
    let first = Window { round_trip: Duration::ZERO, pacing_bps: Some(80_000_000), ..WINDOW };
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    (0..11).for_each(|_| _ = send(&mut gate, &clock, Some(first), 1, 1_000));
    assert_eq!(clock.now(), at(1_025));
}

/// It leaves pacing to quinn's own pacer, and gets as many packets in a transmit.
#[test]
fn a_controller_that_does_not_pace_is_left_alone() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    for _ in 0..20 {
        gate.asked_unpaced();
        assert_eq!(gate.offer(clock.now(), 10, 12_000), Verdict::Leave);
        gate.departed(clock.now(), 10, 12_000);
        assert_eq!(gate.begin(10), 10);
    }
    gate.asked(WINDOW);
    assert_eq!(gate.begin(10), 3);
}

/// Each pair has an ACK half a gap before its time; then the timer is postponed, and is hardly ever set
/// again.
#[test]
fn acks_release_first_and_the_timer_is_set_seldom() {
    let (mut gate, mut set, mut sets) = (gate(), None::<Timestamp>, 0);
    for pair in 0..1_000u64 {
        let now = at(200 * pair + 10);
        gate.begin(10);
        gate.asked(WINDOW);
        assert_eq!(gate.offer(now, 2, 2_500), Verdict::Leave, "{pair}");
        gate.departed(now, 2, 2_500);
        // The next one is built at once, and has to wait.
        gate.asked(WINDOW);
        assert!(matches!(gate.offer(now, 2, 2_500), Verdict::Wait(_)));
        let Some(Release { timer: [from, until], .. }) = gate.held() else { panic!("it waits") };
        assert!(set.is_none_or(|set| now < set), "the timer went off");
        if set.is_none_or(|set| set < from || until < set) {
            (set, sets) = (Some(until), sets + 1);
        }
    }
    assert!((300..600).contains(&sets), "{sets}");
}

/// The machine stands still for 20 ms at 300 Mbit/s: ten packets are made up, and not fifty.
#[test]
fn a_stall_is_made_up_by_ten_packets() {
    let fast = window(600_000, 18_000);
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    (0..100).for_each(|_| _ = send(&mut gate, &clock, Some(fast), 2, 2_500));
    clock.advance(Duration::from_millis(20));
    let resumed = clock.now();
    (0..100).for_each(|_| _ = send(&mut gate, &clock, Some(fast), 2, 2_500));
    let took = clock.now().saturating_duration_since(resumed);
    // A hundred pairs take 6.67 ms; the ten packets are 0.33 of it, and the first pair leaves at once.
    assert!((micros(6_150)..micros(6_450)).contains(&took), "{took:?}");
}

/// 30 packets at 300 Mbit/s are 1.2 ms, and each transmit costs a system call: a quarter of the queue leaves at once.
#[test]
fn a_queue_whose_length_is_known_takes_longer_trains() {
    let fast = window(600_000, 18_000);
    for (queue, packets) in [(0, 3), (1_200, 9), (60_000, 10)] {
        let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
        send(&mut gate, &clock, Some(Window { queue: Some(micros(queue)), ..fast }), 2, 2_500);
        assert_eq!(gate.begin(10), packets, "{queue} µs");
    }
}

/// The handshake, and whatever is sent before an ACK has come.
#[test]
fn without_a_rate_everything_passes() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    for _ in 0..20 {
        assert_eq!(send(&mut gate, &clock, None, 2, 2_400), Duration::ZERO);
    }
    let counters = gate.take_counters();
    assert_eq!((counters.gated, counters.passed), (0, 20));
}

/// ACKs alone and probes after a time-out: quinn does not ask congestion control for them.
#[test]
fn what_congestion_control_was_not_asked_for_passes() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    assert_eq!(send(&mut gate, &clock, None, 1, 1_200), Duration::ZERO);
    // And it does not change the schedule: the next one is due as before.
    assert_eq!(send(&mut gate, &clock, Some(WINDOW), 2, 2_500), Duration::from_micros(250));
}

/// A CONNECTION_CLOSE, which quinn builds as soon as the transmit before it has left; short streams; pings.
#[test]
fn what_is_small_passes_and_takes_its_place() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    assert_eq!(send(&mut gate, &clock, Some(WINDOW), 1, 299), Duration::ZERO);
    assert_eq!(send(&mut gate, &clock, Some(WINDOW), 1, 300), Duration::from_nanos(229_900));
}

/// quinn asks and then finds nothing to send, or no room. Its next transmit may be an ACK.
#[test]
fn what_was_asked_in_vain_does_not_count_for_the_next_transmit() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    gate.begin(10);
    gate.asked(WINDOW);
    assert_eq!(send(&mut gate, &clock, None, 1, 400), Duration::ZERO);
}

/// A transmit that waits keeps the rate it was built at; the controller is not asked when it is offered
/// again.
#[test]
fn a_transmit_that_waits_keeps_its_rate() {
    let mut gate = gate();
    gate.asked(WINDOW);
    assert_eq!(gate.offer(at(0), 2, 2_500), Verdict::Leave);
    gate.departed(at(0), 2, 2_500);
    gate.asked(WINDOW);
    assert_eq!(gate.offer(at(3), 2, 2_500), Verdict::Wait(at(250)));
    gate.begin(10);
    assert_eq!(gate.offer(at(90), 2, 2_500), Verdict::Wait(at(250)));
    assert_eq!(gate.waits_until(), Some(at(250)));
    // Not even if a program reads its statistics meanwhile.
    gate.asked(window(2_000_000_000, 1));
    assert_eq!(gate.offer(at(99), 2, 2_500), Verdict::Wait(at(250)));
    assert_eq!(gate.offer(at(100), 2, 2_500), Verdict::Leave);
    gate.departed(at(100), 2, 2_500);
    assert_eq!(gate.take_counters(), Counters { gated: 1, longest_held: micros(97), ..Counters::default() });
}

/// Any ACK, wake-up or time-out that comes when it may leave releases it, like the timer.
#[test]
fn any_poll_from_its_time_on_lets_it_leave() {
    let mut gate = gate();
    gate.asked(WINDOW);
    gate.offer(at(0), 2, 2_500);
    gate.departed(at(0), 2, 2_500);
    gate.asked(WINDOW);
    gate.offer(at(1), 2, 2_500);
    assert_eq!(gate.offer(at(260), 2, 2_500), Verdict::Leave);
    gate.departed(at(260), 2, 2_500);
    // 60 µs late: the next one makes it up, and not at once.
    gate.asked(WINDOW);
    assert_eq!(gate.offer(at(261), 2, 2_500), Verdict::Wait(at(448) + Duration::from_nanos(750)));
    assert_eq!(gate.offer(at(359), 2, 2_500), Verdict::Wait(at(448) + Duration::from_nanos(750)));
    assert_eq!(gate.offer(at(360), 2, 2_500), Verdict::Leave);
}

/// Every wake-up is late, by more than the gaps allow: the rate still holds, without bursts.
#[test]
fn late_wake_ups_are_anticipated() {
    for (late, segments) in [(20, 1), (60, 2), (90, 2)] {
        let mut gate = gate();
        let (mut now, mut last) = (at(0), None);
        for packet in 0..2_000 {
            gate.begin(10);
            gate.asked(WINDOW);
            if let Verdict::Wait(until) = gate.offer(now, segments, segments * 1_250) {
                now = until + micros(late);
                assert_eq!(gate.offer(now, segments, segments * 1_250), Verdict::Leave);
            }
            gate.departed(now, segments, segments * 1_250);
            let gap = last.replace(now).map(|last| now.saturating_duration_since(last));
            assert!(gap.is_none_or(|gap| gap >= micros(50) * segments), "packet {packet}: {gap:?}");
        }
        let ideal = at(100 * u64::from(segments) * 1_999);
        assert!(now <= ideal + micros(200), "{late} µs late: {now:?} and not {ideal:?}");
    }
}

/// An ACK that comes a little late, but before the timer, is no wake-up: it neither counts as one in time, nor as a timer that was.
#[test]
fn an_ack_before_the_timer_is_no_wake_up() {
    let mut gate = gate();
    gate.asked(WINDOW);
    gate.offer(at(0), 2, 2_500);
    gate.departed(at(0), 2, 2_500);
    (gate.punctual, gate.lateness) = (4, micros(40));
    gate.asked(WINDOW);
    gate.offer(at(1), 2, 2_500);
    let Some(Release { timer: [until, at_the_latest], .. }) = gate.held() else { panic!("it waits") };
    assert_eq!((until, at_the_latest), (at(210), at(410)));
    assert_eq!(gate.offer(at(300), 2, 2_500), Verdict::Leave);
    assert_eq!((gate.punctual, gate.lateness), (4, micros(40)));
}

#[test]
fn nothing_waits_longer_than_it_may() {
    // A packet of 1,200 bytes each 42 ms.
    let slow = window(2_400, 95_000);
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    assert_eq!(send(&mut gate, &clock, Some(slow), 1, 1_200), Duration::ZERO);
    // And early departures do not accumulate: a second later it waits no longer than at first.
    for _ in 0..200 {
        assert_eq!(send(&mut gate, &clock, Some(slow), 1, 1_200), Duration::from_millis(5));
    }
    clock.advance(Duration::from_millis(43));
    assert_eq!(send(&mut gate, &clock, Some(slow), 1, 1_200), Duration::ZERO);
    let counters = gate.take_counters();
    assert_eq!((counters.gated, counters.overdue), (200, 200));
    assert_eq!(counters.longest_held, Duration::from_millis(5));
}

/// Holds for any answers of the controller and any lateness of wake-ups.
#[test]
fn no_wait_is_longer_than_the_bound_whatever_happens() {
    let mut random = Random::stream(8, 0);
    let mut gate = gate();
    let (mut now, mut built) = (at(0), None);
    for _ in 0..100_000 {
        let said = window(any(&mut random, 31), any(&mut random, 21));
        let step = micros(any(&mut random, 13));
        let mut draw = |most: u64| random.next_u64() % most;
        if built.is_none() {
            gate.begin(10);
            if draw(4) > 0 {
                let pacing_bps = (draw(9) == 0).then(|| draw(1 << 40));
                gate.asked(Window {
                    pacing_bps,
                    first: draw(2) == 0,
                    queue: (draw(2) == 0).then_some(Duration::ZERO),
                    ..said
                });
            }
        }
        let packets = 1 + draw(10) as u32;
        let since = *built.get_or_insert(now);
        match gate.offer(now, packets, packets * (1 + draw(1_500) as u32)) {
            Verdict::Leave if draw(8) == 0 => {} // the socket was full
            Verdict::Leave => {
                gate.departed(now, packets, packets * 1_200);
                built = None;
            }
            Verdict::Wait(until) => {
                assert!(now < until && until <= since + Duration::from_millis(5), "{now:?}: {until:?}");
                assert_eq!(gate.waits_until(), Some(until));
            }
        }
        now += step;
    }
}

/// Returns a number of up to `bits` bits, with a uniform number of bits.
fn any(random: &mut Random, bits: u64) -> u64 {
    let bits = 1 + random.next_u64() % bits;
    random.next_u64() >> (64 - bits)
}

/// The kernel's buffer is full. It is offered until it has left, and is charged once.
#[test]
fn a_transmit_that_the_socket_refuses_is_let_go_again() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    gate.asked(WINDOW);
    assert_eq!(gate.offer(at(200), 2, 2_500), Verdict::Leave);
    for again in 201..300 {
        assert_eq!(gate.waits_until(), None);
        assert_eq!(gate.offer(at(again), 2, 2_500), Verdict::Leave);
    }
    gate.departed(at(300), 2, 2_500);
    gate.asked(WINDOW);
    assert_eq!(gate.offer(at(301), 2, 2_500), Verdict::Wait(at(462) + Duration::from_nanos(500)));
}

/// After an idle time, or a slice of the scheduler's given to somebody else: ten packets are made up, with gaps.
#[test]
fn a_pause_is_not_made_up_in_a_burst() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    clock.advance(Duration::from_secs(4));
    let resumed = clock.now();
    let mut gaps = vec![];
    for _ in 0..50 {
        let before = clock.now();
        send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
        gaps.push(clock.now().saturating_duration_since(before).as_micros());
    }
    assert_eq!(gaps[0], 0);
    assert!(gaps[1..].iter().all(|&gap| gap >= 112), "{gaps:?}");
    let (took, evenly) = (clock.now().saturating_duration_since(resumed), Duration::from_micros(49 * 200));
    assert!((900..1_200).contains(&(evenly - took).as_micros()), "{took:?}");
}

/// Releases each 500 µs. After a loss of two or three packets, more than that each 100 µs; one packet at a time where pairs would be
/// far apart.
#[test]
fn the_quantum_follows_the_rate() {
    let quantum_of = |mbit: u64, most, lossy: bool| {
        let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
        let paced = Window {
            bytes: 1,
            pacing_bps: Some(mbit * 1_000_000),
            queue: lossy.then_some(Duration::ZERO),
            ..WINDOW
        };
        send(&mut gate, &clock, Some(paced), 1, 1_250);
        gate.begin(most)
    };
    let quantum = |mbit, most| quantum_of(mbit, most, true);
    assert_eq!([1, 25, 100, 300, 500].map(|mbit| quantum_of(mbit, 10, false)), [1, 2, 5, 10, 10]);
    assert_eq!(
        [1, 15, 25, 100, 250, 350, 500, 10_000].map(|mbit| quantum(mbit, 10)),
        [1, 1, 3, 3, 3, 3, 5, 10]
    );
    // No rate is known; quinn may build several transmits with this answer.
    assert_eq!(gate().begin(10), 2);
    // A kernel without segmentation offload takes one at a time.
    assert_eq!(quantum(10_000, 1), 1);
}

/// After a loss up to three packets leave together for the lossless interval, whatever the other one is.
#[test]
fn one_packet_at_a_time_takes_both_intervals_at_zero() {
    let quantum_of = |lossless_interval, lossy: bool| {
        let release_interval = Duration::ZERO;
        let config =
            GateConfig { least_segments: 1, release_interval, lossless_interval, ..GateConfig::default() };
        let (mut gate, clock) = (Gate::new(config), ManualClock::new(at(0)));
        send(&mut gate, &clock, Some(Window { queue: lossy.then_some(Duration::ZERO), ..WINDOW }), 1, 1_250);
        gate.begin(10)
    };
    assert_eq!([true, false].map(|lossy| quantum_of(Duration::ZERO, lossy)), [1, 1]);
    assert_eq!([true, false].map(|lossy| quantum_of(micros(500), lossy)), [3, 5]);
}

#[test]
fn an_enabled_gate_can_be_switched_off_and_on() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    send(&mut gate, &clock, Some(WINDOW), 2, 2_500);
    gate.asked(WINDOW);
    assert_eq!(gate.offer(at(1), 2, 2_500), Verdict::Wait(at(250)));
    gate.set_enabled(false);
    assert_eq!(gate.waits_until(), None);
    assert_eq!(gate.offer(at(2), 2, 2_500), Verdict::Leave);
    gate.departed(at(2), 2, 2_500);
    assert_eq!(gate.begin(10), 10);
    gate.set_enabled(true);
    assert_eq!(gate.begin(10), 3);
}

/// A rate that changes with every ACK is integrated: the packets sent match the mean of the rates.
#[test]
fn a_rate_that_changes_keeps_its_mean() {
    let (mut gate, clock) = (gate(), ManualClock::new(at(0)));
    let mut allowed = 0.0;
    for round in 0..1_000 {
        let (millis, rate) = if round % 2 == 0 { (18, 12.5e6) } else { (36, 6.25e6) };
        let took = send(&mut gate, &clock, Some(window(200_000, millis * 1_000)), 2, 2_500);
        allowed += took.as_secs_f64() * rate;
    }
    let left = 999.0 * 2_500.0;
    assert!((left - 5_000.0..left + 5_000.0).contains(&allowed), "{allowed}");
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
