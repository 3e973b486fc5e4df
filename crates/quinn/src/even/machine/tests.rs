//! Tests of the decisions on a manual clock, over a simple model of a link: a packet leaves it after the one
//! before, and is lost if too many wait.

use std::collections::VecDeque;

use softtimers_core::Random;

use super::*;

const PACKET: u64 = 1_200;

/// A sender with a window, and a link with a queue. Packets leave evenly or in trains of ten.
struct Path {
    machine: Machine,
    now: Timestamp,
    /// Nanoseconds for each packet; microseconds there and back; packets.
    each: u64,
    delay: u64,
    queue: u64,
    free: Timestamp,
    next: Timestamp,
    /// When it left and when its ACK comes, or when its loss is found.
    under_way: VecDeque<(Timestamp, Timestamp, bool)>,
    lost: u64,
    /// ACKs come together, this many microseconds apart.
    held: u64,
    /// The mean lateness of an ACK in microseconds, from late wake-ups; none overtakes another.
    late: u64,
    last_ack: u64,
    /// One packet in this many is lost on the way.
    radio: u64,
    random: Random,
    most: f64,
}

impl Path {
    /// 100 Mbit/s, 20 ms.
    fn new(queue: u64) -> Path {
        let now = Timestamp::from_micros(1_000_000);
        let machine = Machine::new(now, 12_000, PACKET as u16);
        let (random, under_way) = (Random::stream(28, 0), VecDeque::new());
        let (each, delay, lost, held, radio, most) = (96_000, 20_000, 0, 1, u64::MAX, 0.0);
        let (late, last_ack) = (0, 0);
        let (free, next) = (now, now);
        Path {
            machine,
            now,
            each,
            delay,
            queue,
            free,
            next,
            under_way,
            lost,
            held,
            late,
            last_ack,
            radio,
            random,
            most,
        }
    }

    /// Returns the number of packets that it holds without a queue.
    fn holds(&self) -> f64 {
        self.delay as f64 * 1_000.0 / self.each as f64
    }

    fn window(&self) -> f64 {
        self.machine.window / PACKET as f64
    }

    fn send(&mut self) {
        let packets = if self.machine.wants_trains() { 10 } else { 1 };
        // A train waits until it has room, as in quinn's bucket.
        let room = self.machine.window() / PACKET;
        if packets == 10 && self.under_way.len() as u64 + packets > room && !self.under_way.is_empty() {
            return;
        }
        for _ in 0..packets {
            if (self.under_way.len() as u64 + 1) * PACKET >= self.machine.window() {
                return;
            }
            let ahead = self.free.saturating_duration_since(self.now).as_nanos() as u64 / self.each;
            let dropped = ahead > self.queue || self.random.below(self.radio) == 0 && self.radio < u64::MAX;
            if ahead <= self.queue {
                self.free = self.free.max(self.now) + Duration::from_nanos(self.each);
            }
            let arrives = self.free.max(self.now) + Duration::from_micros(self.delay);
            let acked = arrives.as_nanos().div_ceil(self.held * 1_000) * self.held * 1_000;
            let late = self.random.exponential() as f64 / Random::ONE as f64 * (self.late * 1_000) as f64;
            let acked = (acked + late as u64).max(self.last_ack);
            self.last_ack = acked;
            self.under_way.push_back((self.now, Timestamp::from_nanos(acked), dropped));
        }
        let by_window = self.machine.window() as f64 * 1.25 / (self.delay as f64 * 1e-6);
        let rate = self.machine.pace().unwrap_or(by_window);
        // Without the rounding to steps of the model's clock.
        let due = self.next.max(self.now.saturating_sub(TICK));
        self.next = due + Duration::from_secs_f64((packets * PACKET) as f64 / rate);
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            while let Some((sent, _, dropped)) = self.under_way.pop_front_if(|packet| packet.1 <= self.now) {
                if dropped {
                    self.lost += 1;
                    self.machine.lost(self.now, sent, false);
                } else {
                    let took = self.now.saturating_duration_since(sent);
                    self.machine.acked(self.now, sent, PACKET, false, took);
                }
                self.most = self.most.max(self.window());
            }
            if self.now >= self.next {
                self.send();
            }
            self.now += TICK;
        }
    }
}

const TICK: Duration = Duration::from_micros(4);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn slow_start_ends_where_the_path_is_full() {
    for queue in [20, 100, 1_000] {
        let mut path = Path::new(queue);
        path.run(Duration::from_millis(700));
        let share = path.window() / path.holds();
        assert!((0.9..1.15).contains(&share), "{queue} packets: {share:.2}");
        assert!(path.lost <= 10, "{queue} packets: {} lost", path.lost);
    }
}

/// The path holds 208 packets, and doubling from ten takes 120 ms.
#[test]
fn slow_start_is_quicker_where_trains_tell_the_rate() {
    for queue in [20, 1_000] {
        let mut path = Path::new(queue);
        path.run(Duration::from_millis(95));
        let share = path.window() / path.holds();
        assert!((0.9..1.1).contains(&share), "{queue} packets: {share:.2}");
        assert_eq!(path.lost, 0, "{queue} packets");
    }
}

/// Six packets more in a round trip, and not a sixty-fourth of a thousand: the queue holds twenty.
#[test]
fn a_long_path_with_a_short_queue_loses_nothing() {
    let mut path = Path::new(20);
    path.delay = 100_000;
    path.run(seconds(3));
    let share = path.window() / path.holds();
    assert!((0.95..1.05).contains(&share), "{share:.2}");
    assert_eq!(path.lost, 0);
}

/// What looked like a queue was a late wake-up, or another flow that has ended.
#[test]
fn room_that_is_left_is_found_before_anything_is_lost() {
    let mut path = Path::new(100);
    path.run(Duration::from_millis(500));
    path.machine.window *= 0.8;
    path.machine.avoid();
    path.run(Duration::from_millis(600));
    let share = path.window() / path.holds();
    assert!((0.97..1.2).contains(&share), "{share:.2}");
    // After a loss it is left to CUBIC: others may have made it.
    path.machine.lost(path.now, path.now, false);
    let cut = path.window();
    path.run(Duration::from_millis(600));
    assert!(path.window() < cut * 1.2, "{:.0} after {cut:.0}", path.window());
}

/// Packets of slow start overran the queue, which is found once the search for the path's size has ended: its result holds.
#[test]
fn a_late_loss_of_slow_start_leaves_what_the_path_holds() {
    let mut path = Path::new(1_000);
    while path.machine.phase != Phase::Avoid {
        path.run(Duration::from_millis(1));
    }
    path.run(Duration::from_millis(5));
    path.machine.lost(path.now, path.now.saturating_sub(Duration::from_millis(20)), false);
    let share = path.window() / path.holds();
    assert!(share > 0.9, "{share:.2}");
}

/// At 1 Gbit/s no train is measured in time, and quinn's would hold 40 packets and more.
#[test]
fn trains_are_no_longer_than_a_short_queue() {
    let mut path = Path::new(1_000);
    path.run(Duration::from_millis(22));
    assert!(path.machine.wants_trains() && path.machine.trains.rate().is_none());
    path.machine.window = 400.0 * PACKET as f64;
    assert!(!path.machine.wants_trains());
}

/// Trains tell what the link carries, and a loss beside another flow must not keep all of that.
#[test]
fn a_loss_beside_others_leaves_what_was_delivered() {
    let mut path = Path::new(1_000);
    path.run(Duration::from_millis(95));
    assert!(path.machine.phase != Phase::Avoid && path.machine.full().is_some());
    let before = path.window();
    // For three round trips a quarter of the ACKs come.
    path.each *= 4;
    path.free = path.now + Duration::from_millis(60);
    path.run(Duration::from_millis(90));
    path.machine.phase = Phase::Probe(1);
    path.machine.lost(path.now, path.now, false);
    assert!(path.window() <= before * 0.85, "{:.0} of {before:.0}", path.window());
}

/// A sender that wakes up late has a longer round trip than the shortest one: it keeps some of the queue for
/// that. But a few late ACKs in a row are not a queue.
#[test]
fn late_wake_ups_neither_end_the_search_early_nor_leave_the_link_idle() {
    for late in [100, 200] {
        let mut path = Path::new(1_000);
        path.late = late;
        path.run(seconds(2));
        let share = path.window() / path.holds();
        assert!((1.02..1.25).contains(&share), "{late} µs: {share:.2}");
        assert_eq!(path.lost, 0, "{late} µs");
    }
}

/// A queue that shows results from the window of the previous round trip, and only the amount that shows
/// stays.
#[test]
fn a_queue_that_has_shown_drains_to_what_shows() {
    let mut path = Path::new(1_000);
    while path.machine.phase != Phase::Avoid {
        path.run(Duration::from_millis(1));
    }
    let above = path.window() - path.holds();
    assert!((2.0..3.0 * SHOWS).contains(&above), "{above:.1} packets");
}

/// The overshoot is bounded, the window after it is the path's capacity, and losses of the same flight cut no
/// further.
#[test]
fn acks_in_lumps_hide_the_rate_and_cost_one_event() {
    let mut path = Path::new(50);
    path.held = 4_000;
    path.run(Duration::from_millis(600));
    assert_eq!(path.machine.trains.rate(), None, "trains are not believed");
    assert!(path.lost > 0 && path.most < path.holds() * 2.6, "{} lost, {:.0}", path.lost, path.most);
    let share = path.window() / path.holds();
    assert!((0.6..1.3).contains(&share), "{share:.2}");
}

/// Another flow uses half of the link while this one starts, and then ends.
#[test]
fn a_link_that_was_busy_at_the_start_is_found_when_it_is_not() {
    let mut path = Path::new(400);
    path.each *= 4;
    path.run(Duration::from_millis(100));
    path.each /= 4;
    path.run(seconds(2));
    let share = path.window() / path.holds();
    assert!(share > 0.85, "{share:.2}");
}

/// After the first cut the window grows in each round trip.
#[test]
fn nothing_stands_still_after_a_cut() {
    let mut path = Path::new(20);
    path.run(Duration::from_millis(500));
    let (now, before) = (path.now, path.window());
    for _ in 0..2 {
        path.machine.lost(path.now, path.now, false);
        path.run(Duration::from_millis(25));
    }
    assert!(now < path.now && path.window() < before * 0.55, "{:.0} of {before:.0}", path.window());
    for round in 0..10 {
        let window = path.window();
        path.run(Duration::from_millis(40));
        assert!(path.window() > window + 0.3, "round {round}: {:.1} after {window:.1}", path.window());
    }
}

#[test]
fn losses_of_one_flight_are_one_event() {
    let mut path = Path::new(20);
    path.run(Duration::from_millis(500));
    let (now, before) = (path.now, path.machine.window);
    for packet in 1..100 {
        path.machine.lost(now, now.saturating_sub(Duration::from_micros(100 * packet)), false);
    }
    assert_eq!(path.machine.window, before * BETA);
    path.machine.lost(now + Duration::from_millis(20), now + Duration::from_micros(1), false);
    assert!((path.machine.window - before * BETA * BETA).abs() < 1.0);
}

/// The route becomes longer, then shorter again.
#[test]
fn a_round_trip_that_changes_is_followed() {
    let mut path = Path::new(100);
    path.run(seconds(1));
    path.delay = 60_000;
    path.run(seconds(12));
    assert!(path.machine.path.least.get() >= Duration::from_millis(60));
    assert!(path.window() > 250.0, "{:.0}", path.window());
    path.delay = 20_000;
    path.run(seconds(3));
    assert!(path.machine.path.least.get() < Duration::from_millis(21));
    assert!(path.window() < 320.0, "{:.0}", path.window());
}

#[test]
fn a_time_out_starts_again_from_two_packets_up_to_the_cut() {
    let mut path = Path::new(20);
    path.run(Duration::from_millis(500));
    let before = path.window();
    path.machine.lost(path.now, path.now, true);
    assert_eq!(path.machine.window(), 2 * PACKET);
    path.under_way.clear();
    path.run(Duration::from_millis(300));
    let share = path.window() / before;
    assert!((0.6..0.95).contains(&share), "{share:.2}");
}

/// A packet that left before the time-out is found lost only now: that is the same event, and no reason to leave slow start.
#[test]
fn after_a_time_out_old_losses_do_not_count() {
    let mut path = Path::new(20);
    path.run(Duration::from_millis(500));
    path.machine.lost(path.now, path.now, true);
    let sent = path.now.saturating_sub(Duration::from_millis(1));
    path.machine.lost(path.now + Duration::from_millis(5), sent, false);
    assert_eq!((path.machine.phase, path.machine.window()), (Phase::Start, 2 * PACKET));
    assert!(path.machine.threshold.is_finite());
}

/// With less than two packets quinn would never send.
#[test]
fn the_first_window_is_at_least_two_packets() {
    let machine = Machine::new(Timestamp::from_micros(1_000_000), 0, PACKET as u16);
    assert_eq!(machine.window(), 2 * PACKET);
}

/// Packets become longer, as after a probe of the MTU, or shorter again: the window in bytes does not change.
#[test]
fn another_mtu_neither_raises_the_window_nor_stops_it() {
    let round_trip = Duration::from_millis(20);
    for mtu in [1_452, 1_000] {
        let mut path = Path::new(20);
        path.run(Duration::from_millis(500));
        assert_eq!(path.machine.phase, Phase::Avoid);
        path.machine.set_mtu(mtu);
        let before = path.machine.window;
        for _ in 0..100 {
            path.now += Duration::from_micros(100);
            path.machine.acked(path.now, path.now.saturating_sub(round_trip), PACKET, false, round_trip);
        }
        let grown = path.machine.window - before;
        assert!((50.0..1_000.0).contains(&grown), "{mtu}: {grown:.0} bytes");
    }
}

/// The window does not grow while the program has nothing to send.
#[test]
fn idle_time_changes_nothing() {
    let mut path = Path::new(20);
    path.run(Duration::from_millis(500));
    let before = path.machine.window;
    for second in 1..60 {
        let now = path.now + seconds(second);
        path.machine.acked(
            now,
            now.saturating_sub(Duration::from_millis(20)),
            PACKET,
            true,
            Duration::from_millis(20),
        );
    }
    assert_eq!(path.machine.window, before);
    path.now += seconds(60);
    (path.free, path.next) = (path.now, path.now);
    path.under_way.clear();
    path.run(Duration::from_millis(200));
    assert!(path.machine.window < before * 1.12, "{:.0} after {before:.0}", path.machine.window);
}

/// At the first ACK after an idle time there is something to send again, and quinn doesn't call it limited by the program.
#[test]
fn a_time_without_acks_is_no_time_since_the_cut() {
    let mut path = Path::new(20);
    path.run(Duration::from_millis(500));
    assert_eq!(path.machine.phase, Phase::Avoid);
    let before = path.window();
    path.now += seconds(60);
    (path.free, path.next) = (path.now, path.now);
    path.under_way.clear();
    // Too large a window would soon be cut.
    path.most = 0.0;
    path.run(Duration::from_millis(200));
    assert!(path.most < before * 1.05, "{:.1} after {before:.1}", path.most);
}

/// Packets that are lost on the way, one in a thousand, are answered as CUBIC does, and no deeper.
#[test]
fn random_loss_leaves_a_window() {
    let mut path = Path::new(20);
    path.radio = 1_000;
    path.run(seconds(10));
    assert!(path.window() > 30.0, "{:.0}", path.window());
}

/// Packets that left before the controller was built took another path.
#[test]
fn packets_of_the_path_before_do_not_count() {
    let now = Timestamp::from_micros(1_000_000);
    let mut machine = Machine::new(now, 12_000, 1_200);
    let sent = now.saturating_sub(Duration::from_millis(80));
    machine.acked(now + Duration::from_millis(2), sent, PACKET, false, Duration::from_millis(82));
    machine.lost(now + Duration::from_millis(2), sent, false);
    assert_eq!((machine.window(), machine.phase), (12_000, Phase::Start));
    assert_eq!(machine.path.least.get(), Duration::MAX);
}
