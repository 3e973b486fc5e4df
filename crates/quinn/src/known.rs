//! [`KnownCapacity`]: a sender that knows the path's capacity needs no slow start.
//!
//! Slow start sends two packets, or ten, and doubles that in each round trip. Over a long fast path a
//! transfer of a hundred packets is over before the path was ever full (soft timers §5.7). A sender that
//! knows the capacity, because it is rented, reserved or was just measured, sends at it from the first
//! packet:
//!
//! ```text
//!   rate
//!   capacity ┤           ┌──────┐ 2% lost                       │ idle  ┌────
//!            ┤     ┌─────┘      └──────┐     ┌──────────────────┤       │  what ACKs came for
//!   fraction ┤─────┘                   └─────┘  a sixteenth     │       │  in the last busy period
//!            └────────────────────────────────────────────────────────────────▶
//!              twice as much in each round trip           restart
//! ```
//!
//! The paper's prototype never slows down, and says that a practical one has to be careful. So this one
//! begins with a fraction if configured, climbs while it uses its rate, and slows down when it loses more
//! than 2% in a round trip: that is congestion, or the configured capacity is wrong. Single losses, as on
//! radio links, do not count.
//!
//! It paces by the gate, so it is useful only on a [`SmoothRuntime`](crate::SmoothRuntime).

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use softtimers_core::{AckRate, Percent, Rate, RateError, StartRate, Timestamp};

/// Controllers for paths whose capacity is known.
///
/// ```
/// use std::sync::Arc;
/// use quinn::TransportConfig;
/// use softtimers_core::Percent;
/// use softtimers_quinn::{KnownCapacity, SmoothController};
///
/// let rented = KnownCapacity::bits_per_second(100_000_000)?.initial_fraction(Percent::HALF)?;
/// let mut transport = TransportConfig::default();
/// transport.congestion_controller_factory(Arc::new(SmoothController::new(rented)));
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
///
/// If several connections share the path, give each its share of the capacity.
///
/// # Cost
/// Some 300 bytes for each path; everything is O(1).
#[derive(Clone, Debug)]
pub struct KnownCapacity {
    start: StartRate,
}

impl KnownCapacity {
    /// Sets the capacity of the path in bits a second, headers of UDP and IPv4 included.
    ///
    /// # Errors
    /// [`RateError`] for zero, or for more than 9.8 Tbit/s.
    pub fn bits_per_second(bits: u64) -> Result<Self, RateError> {
        let start = StartRate::new(Rate::of_bits(bits, PACKET + HEADERS)?, Percent::ALL)?;
        Ok(KnownCapacity { start })
    }

    /// Sets the fraction of the capacity with which the first train begins, and each one after losses: all of
    /// it by default. It doubles in each round trip that loses less than 2%.
    ///
    /// # Errors
    /// [`RateError`] for 0%.
    pub fn initial_fraction(self, fraction: Percent) -> Result<Self, RateError> {
        Ok(KnownCapacity { start: StartRate::new(self.start.capacity(), fraction)? })
    }

    /// Sets how long after the last ACK an idle connection restarts at the rate of its last busy period: 5
    /// minutes by default.
    #[must_use]
    pub fn memory(self, memory: Duration) -> Self {
        KnownCapacity { start: self.start.memory(memory) }
    }
}

impl ControllerFactory for KnownCapacity {
    fn build(self: Arc<Self>, now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Known::new(self.start.clone(), now))
    }
}

/// The controller of one path.
#[derive(Clone, Debug)]
struct Known {
    start: StartRate,
    /// The origin of times.
    epoch: Instant,
    /// The rate in bits of UDP payload a second.
    bps: u64,
    round: Round,
    acks: AckRate,
    /// Acknowledged bytes that do not make up a whole packet.
    rest: u64,
    /// Whether packets were lost before: from then on it climbs slowly.
    careful: bool,
    /// Whether no packet is in flight.
    idle: bool,
    last_sent: Timestamp,
    round_trip: Option<Duration>,
}

/// A round trip: from one packet's sending to the first ACK for a packet that was sent after it began.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Timestamp,
    sent: u64,
    acked: u64,
    lost: u64,
    congested: bool,
}

impl Known {
    fn new(start: StartRate, epoch: Instant) -> Self {
        let bps = bits_per_second(start.rate(Timestamp::ZERO));
        Known {
            start,
            epoch,
            bps,
            round: Round::default(),
            acks: AckRate::new(),
            rest: 0,
            careful: false,
            idle: true,
            last_sent: Timestamp::ZERO,
            round_trip: None,
        }
    }

    fn time(&self, instant: Instant) -> Timestamp {
        Timestamp::ZERO + instant.saturating_duration_since(self.epoch)
    }

    /// Records an ACK.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let took = now.saturating_duration_since(sent);
        self.round_trip = Some(self.round_trip.map_or(took, |least| least.min(took)));
        let (now, sent) = (self.time(now), self.time(sent));
        if sent >= self.round.began && now > self.round.began {
            self.end_round(now);
        }
        self.round.acked += bytes;
        self.rest += bytes;
    }

    fn begin_round(&mut self, now: Timestamp) {
        self.round = Round { began: now, ..Round::default() };
    }

    /// Ends a round trip, which decides on the next one's rate.
    fn end_round(&mut self, now: Timestamp) {
        let capacity = bits_per_second(self.start.capacity());
        let Round { began, sent, acked, lost, congested } = self.round;
        let possible = u128::from(self.bps) * now.saturating_duration_since(began).as_nanos() / 8_000_000_000;
        let too_many = lost >= FEW && lost.saturating_mul(TOLERATED) > acked + lost;
        if congested || too_many {
            self.careful = true;
            self.start.forget();
            self.acks = AckRate::new();
            self.bps = (self.bps / 10 * 7).max(capacity / 100).max(1);
        } else if u128::from(sent) * 2 >= possible {
            // Less does not show the path's capacity: a handshake, or a program that has little to send.
            let step = if self.careful { capacity / 16 } else { self.bps };
            self.bps = self.bps.saturating_add(step).min(capacity);
        }
        self.begin_round(now);
    }
}

impl Controller for Known {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let now = self.time(now);
        // Between two answers of a program the connection may be idle for a moment. That does not begin a new
        // train.
        let pause = now.saturating_duration_since(self.last_sent);
        if self.idle && pause > self.round_trip.unwrap_or_default() {
            self.bps = bits_per_second(self.start.rate(now));
            self.begin_round(now);
        }
        self.round.sent += bytes;
        self.last_sent = now;
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _limited: bool, _rtt: &RttEstimator) {
        self.acked(now, sent, bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _limited: bool, _largest: Option<u64>) {
        let now = self.time(now);
        let packets = self.rest / u64::from(PACKET);
        self.rest %= u64::from(PACKET);
        if packets > 0 {
            self.acks.on_ack(now, packets);
            self.acks.rate().into_iter().for_each(|rate| self.start.proved(now, rate));
        }
        self.idle = in_flight == 0;
        if self.idle {
            self.acks.idle();
        }
    }

    fn on_congestion_event(&mut self, now: Instant, _sent: Instant, persistent: bool, lost_bytes: u64) {
        self.round.lost += lost_bytes;
        // A mark, not a loss.
        self.round.congested |= lost_bytes == 0;
        if persistent {
            self.start.forget();
            self.bps = bits_per_second(self.start.rate(self.time(now)));
            self.careful = true;
        }
    }

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    /// Returns the window that the rate keeps in flight, plus a quarter, so that the rate decides and not the
    /// window; but no more, because it bounds the queue if the real capacity is less.
    fn window(&self) -> u64 {
        let on_its_way = self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP).as_nanos();
        let bytes = u128::from(self.bps) * on_its_way / 8_000_000_000;
        u64::try_from(bytes / 4 * 5).unwrap_or(u64::MAX).saturating_add(u64::from(PACKET) * LEAST_IN_FLIGHT)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = Some(self.bps);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Returns the bits of payload a second of packets at this rate.
fn bits_per_second(rate: Rate) -> u64 {
    let bit_nanos = u64::from(PACKET) * 8 * 1_000_000_000;
    u64::try_from(rate.interval().as_nanos()).map_or(1, |nanos| (bit_nanos / nanos.max(1)).max(1))
}

/// A packet for the purpose of rates, in bytes: quinn's first ones.
const PACKET: u32 = 1_200;
/// The headers of UDP and IPv4, in bytes.
const HEADERS: u32 = 28;
/// One packet in this many may be lost: the share that BBRv2 tolerates.
const TOLERATED: u64 = 50;
/// In bytes: this few packets are no evidence, whatever their share of a round trip.
const FEW: u64 = 3 * PACKET as u64;
/// quinn's default. Until an ACK has come only the rate limits.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_millis(333);
/// Packets in flight at any rate, so that delayed ACKs never stop it.
const LEAST_IN_FLIGHT: u64 = 10;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const CAPACITY: u64 = 100_000_000;
    /// Its share for payload.
    const PAYLOAD: u64 = CAPACITY * 1_200 / 1_228;
    const MILLI: Duration = Duration::from_millis(1);

    /// A path of 100 ms, on which packets leave each millisecond.
    struct Path {
        known: Known,
        now: Instant,
        in_flight: VecDeque<(Instant, u64)>,
        /// One packet in this many is lost.
        lost: u64,
        sent: u64,
    }

    impl Path {
        fn new(fraction: u32) -> Self {
            let factory = KnownCapacity::bits_per_second(CAPACITY).unwrap();
            let factory = factory.initial_fraction(Percent::new(fraction).unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "an Instant to count from; no later one is read")]
            let now = Instant::now();
            let known = Known::new(factory.start, now);
            Path { known, now, in_flight: VecDeque::new(), lost: u64::MAX, sent: 0 }
        }

        /// Runs for `millis` milliseconds, with this share of what the rate allows.
        fn run(&mut self, millis: u32, percent: u64) {
            for _ in 0..millis {
                self.send(self.known.bps / 8_000 * percent / 100);
                self.step();
            }
        }

        fn send(&mut self, bytes: u64) {
            self.known.on_sent(self.now, bytes, self.sent);
            self.in_flight.push_back((self.now, bytes));
        }

        fn step(&mut self) {
            self.now += MILLI;
            let Some(&(sent, bytes)) = self.in_flight.front() else { return };
            if sent + MILLI * 100 > self.now {
                return;
            }
            self.in_flight.pop_front();
            self.sent += 1;
            if self.sent % self.lost == 0 {
                return self.known.on_congestion_event(self.now, sent, false, bytes);
            }
            self.known.acked(self.now, sent, bytes);
            let in_flight = self.in_flight.iter().map(|(_, bytes)| bytes).sum();
            self.known.on_end_acks(self.now, in_flight, false, Some(self.sent));
        }

        /// Sends nothing until all packets have come back, and for `pause` after that.
        fn rest(&mut self, pause: Duration) {
            (0..110).for_each(|_| self.step());
            self.now += pause;
        }

        /// Thousandths of the capacity.
        fn share(&self) -> u64 {
            (self.known.bps * 1_000 + PAYLOAD / 2) / PAYLOAD
        }
    }

    #[test]
    fn it_begins_at_the_capacity() {
        let path = Path::new(100);
        assert_eq!(path.share(), 1_000);
        assert_eq!(path.known.metrics().pacing_rate, Some(path.known.bps));
        // At least the amount of 333 ms.
        assert!(path.known.window() > CAPACITY / 8 / 3);
    }

    #[test]
    fn a_fraction_doubles_until_it_is_all() {
        let mut path = Path::new(20);
        let shares = [0, 1, 2, 3, 4].map(|_| {
            path.run(100, 100);
            path.share()
        });
        assert_eq!(shares, [200, 400, 800, 1_000, 1_000]);
    }

    /// A handshake, for one.
    #[test]
    fn who_sends_little_does_not_climb() {
        let mut path = Path::new(20);
        path.run(1_000, 40);
        assert_eq!(path.share(), 200);
    }

    #[test]
    fn single_losses_are_no_congestion_and_many_are() {
        let mut path = Path::new(100);
        path.lost = 80;
        path.run(1_000, 100);
        assert_eq!(path.share(), 1_000);
        path.lost = 20;
        while path.share() == 1_000 {
            path.run(1, 100);
        }
        assert_eq!(path.share(), 700);
        path.lost = u64::MAX;
        path.run(100, 100);
        assert_eq!(path.share(), 762, "a sixteenth more in each round trip");
    }

    #[test]
    fn after_an_idle_time_it_restarts_at_what_was_acknowledged() {
        let mut path = Path::new(100);
        path.run(1_000, 30);
        path.rest(Duration::from_secs(5));
        assert_eq!(path.share(), 1_000);
        path.send(1_200);
        assert!((295..=305).contains(&path.share()), "{}", path.share());
        // And after five minutes it begins again.
        path.rest(Duration::from_secs(301));
        path.send(1_200);
        assert_eq!(path.share(), 1_000);
    }

    /// A packet that it sends meanwhile, as an ACK of its own, begins no new train either.
    #[test]
    fn a_short_pause_is_no_new_train() {
        let mut path = Path::new(100);
        path.run(1_000, 30);
        for _ in 0..20 {
            path.rest(Duration::ZERO);
            path.now -= Duration::from_millis(20);
            path.send(1_200);
        }
        assert_eq!(path.share(), 1_000);
    }

    #[test]
    fn the_window_holds_what_is_on_its_way() {
        let mut path = Path::new(100);
        path.run(300, 100);
        let on_its_way = path.known.bps / 8 / 10;
        assert!((on_its_way..on_its_way * 3 / 2).contains(&path.known.window()));
    }
}
