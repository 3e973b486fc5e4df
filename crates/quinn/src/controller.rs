//! [`SmoothController`] wraps any congestion controller and reports its rate to the gate.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Bbr, Controller, ControllerFactory, ControllerMetrics};
use softtimers_core::Timestamp;

use crate::EvenCubic;
use crate::current::with_gate;
use crate::even::{Least, UNPACED};
use crate::gate::{Gate, Window};

/// A factory of controllers that decide as those of another factory, and report to the gate.
///
/// ```
/// use std::sync::Arc;
/// use quinn::TransportConfig;
/// use quinn::congestion::NewRenoConfig;
/// use softtimers_quinn::SmoothController;
///
/// let mut transport = TransportConfig::default();
/// transport.congestion_controller_factory(Arc::new(SmoothController::new(NewRenoConfig::default())));
/// ```
///
/// It changes nothing by itself: without a [`SmoothRuntime`](crate::SmoothRuntime) there is no gate to report
/// to. The result of [`Connection::congestion_state`](quinn::Connection::congestion_state) converts into the
/// inner controller.
///
/// quinn's BBR is left to quinn's own pacer: behind the gate it had 0.95 of its goodput at 100 Mbit/s and
/// 0.87 at 300. It fills a short queue by design, with twice the path's capacity in flight, and loses half of
/// its packets however evenly they leave.
///
/// # Cost
/// Some 220 bytes for each path. Each ACK reads the inner controller's metrics once.
#[derive(Clone, Debug)]
pub struct SmoothController<F>(Arc<F>);

impl<F> SmoothController<F> {
    /// Wraps the controllers of this factory.
    pub fn new(factory: F) -> Self {
        SmoothController(Arc::new(factory))
    }
}

/// The controller for even senders.
impl Default for SmoothController<EvenCubic> {
    fn default() -> Self {
        SmoothController::new(EvenCubic::default())
    }
}

impl<F: ControllerFactory> ControllerFactory for SmoothController<F> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Smooth::around(Arc::clone(&self.0).build(now, current_mtu), now))
    }
}

/// A controller and the state that the gate needs of it.
struct Smooth {
    inner: Box<dyn Controller>,
    /// `None` before the first ACK.
    round_trip: Option<Duration>,
    /// Whether quinn has a first round-trip sample.
    sampled: bool,
    /// The shortest round trip in this batch of ACKs.
    batch: Option<Duration>,
    /// See [`Window::first`].
    first: bool,
    pacing_bps: Option<u64>,
    built: Instant,
    /// The recent shortest round trip, and the latest ones.
    least: Least,
    latest: [Duration; 4],
    /// The time of the last loss that is not forgiven, and the delay of the queue then.
    lost: Option<(Instant, Duration)>,
    /// Whether nothing is reported to the gate.
    unpaced: bool,
}

impl Smooth {
    fn around(inner: Box<dyn Controller>, built: Instant) -> Self {
        let mut smooth = Smooth {
            unpaced: inner.clone_box().into_any().is::<Bbr>(),
            inner,
            round_trip: None,
            sampled: false,
            batch: None,
            first: true,
            pacing_bps: None,
            built,
            least: Least::NONE,
            latest: [Duration::MAX; 4],
            lost: None,
        };
        smooth.look();
        smooth
    }

    /// Records a packet's round trip, `took`, that ends `now`, and forgives an old loss. quinn updates its estimate only
    /// after this call: before the first sample it is 333 ms, on any path.
    fn took(&mut self, now: Instant, took: Duration, smoothed: Duration) {
        let least = *self.batch.insert(self.batch.map_or(took, |least| least.min(took)));
        self.least.note(Timestamp::ZERO + now.saturating_duration_since(self.built), took);
        self.latest.rotate_left(1);
        self.latest[3] = took;
        self.round_trip = Some(if self.sampled { smoothed.min(least * 2) } else { least });
        self.lost = self.lost.filter(|(lost, _)| now.saturating_duration_since(*lost) < FORGIVEN);
    }

    /// Reads the inner controller's state.
    fn look(&mut self) {
        let ControllerMetrics { congestion_window, ssthresh, pacing_rate, .. } = self.inner.metrics();
        let slow_start = ssthresh.is_some_and(|threshold| congestion_window < threshold);
        // The handshake's own packets have let it grow a little.
        self.first = slow_start && congestion_window < 2 * self.inner.initial_window();
        // BBR returns zero before it has a rate.
        self.pacing_bps = pacing_rate.filter(|&rate| rate > 0);
    }
}

impl Controller for Smooth {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
        if self.pacing_bps.is_some() {
            self.look();
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
        self.took(now, now.saturating_duration_since(sent), rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        self.sampled |= self.batch.take().is_some();
        self.look();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, persistent, lost_bytes);
        if lost_bytes > 0 {
            // Packets that followed a dropped one have waited for all of the queue; some of their ACKs are late.
            let queue = self.latest.into_iter().min().unwrap_or_default().saturating_sub(self.least.get());
            self.lost = Some((now, queue));
        }
        self.look();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    /// The window of the controller, and room for what is not on the path.
    ///
    /// A transmit that waits at the gate counts as in flight. Where the controller has a rate of its own, the rate
    /// decides when packets leave. The window would stop them until the next ACK, which makes room for two.
    fn window(&self) -> u64 {
        let bytes = self.inner.window();
        let Smooth { round_trip, first, pacing_bps, lost, unpaced, .. } = *self;
        if unpaced || pacing_bps == Some(UNPACED) {
            with_gate(Gate::asked_unpaced);
        } else if round_trip.is_some() || pacing_bps.is_some() {
            let (round_trip, queue) = (round_trip.unwrap_or_default(), lost.map(|(_, queue)| queue));
            let gate = with_gate(|gate| gate.asked(Window { bytes, round_trip, first, queue, pacing_bps }));
            if gate.is_some() && pacing_bps.is_some() {
                return bytes.saturating_add(at_the_gate(bytes, round_trip));
            }
        }
        bytes
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Smooth { inner: self.inner.clone_box(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// How long after a loss the path counts as having room again.
const FORGIVEN: Duration = Duration::from_secs(10);

/// Returns the bytes of a transmit that waits: those of half a millisecond, at least the three packets that leave together after a
/// loss, at most ten; but no more than an eighth of the window.
fn at_the_gate(window: u64, round_trip: Duration) -> u64 {
    let transmit = u128::from(window) * 500_000 / round_trip.as_nanos().max(1);
    u64::try_from(transmit).unwrap_or(u64::MAX).clamp(3 * 1_452, 14_520).min(window / 8)
}

#[cfg(test)]
mod tests {
    use quinn_proto::congestion::{BbrConfig, Cubic, CubicConfig, NewRenoConfig};

    use super::*;

    fn smooth(factory: impl ControllerFactory) -> Smooth {
        #[expect(clippy::disallowed_methods, reason = "a controller wants one; nothing depends on it")]
        let now = Instant::now();
        Smooth::around(Arc::new(factory).build(now, 1_200), now)
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_round_trip_is_its_sample_and_not_what_quinn_starts_with() {
        let mut cubic = smooth(CubicConfig::default());
        let now = cubic.built;
        assert_eq!(cubic.round_trip, None);
        cubic.took(now, millis(24), millis(333));
        cubic.took(now, millis(20), millis(333));
        assert_eq!(cubic.round_trip, Some(millis(20)));
        cubic.on_end_acks(now, 0, false, None);
        cubic.took(now, millis(26), millis(21));
        assert_eq!(cubic.round_trip, Some(millis(21)));
    }

    /// For a path that has just become much shorter, or a default estimate.
    #[test]
    fn a_round_trip_is_at_most_twice_the_sample() {
        let mut cubic = smooth(CubicConfig::default());
        cubic.sampled = true;
        cubic.took(cubic.built, millis(20), millis(333));
        assert_eq!(cubic.round_trip, Some(millis(40)));
    }

    #[test]
    fn bbr_is_left_to_quinn_and_losses_are_forgiven() {
        assert!(smooth(BbrConfig::default()).unpaced && !smooth(CubicConfig::default()).unpaced);
        let mut even = smooth(EvenCubic::default());
        assert_eq!(even.pacing_bps, Some(UNPACED), "trains first");
        let now = even.built;
        even.on_congestion_event(now, now, false, 0);
        assert!(even.lost.is_none(), "a mark is no loss");
        even.on_congestion_event(now, now + millis(1), false, 1_200);
        assert!(even.lost.is_some());
        even.took(now + millis(9_999), millis(20), millis(20));
        assert!(even.lost.is_some());
        even.took(now + millis(10_001), millis(20), millis(20));
        assert!(even.lost.is_none());
    }

    /// From the round trips of the packets behind a dropped one, of which some were late as well.
    #[test]
    fn a_loss_tells_the_delay_of_the_queue() {
        let mut even = smooth(EvenCubic::default());
        let now = even.built;
        [20, 21, 22, 29, 22, 23].into_iter().for_each(|took| even.took(now, millis(took), millis(20)));
        even.on_congestion_event(now, now, false, 1_200);
        assert_eq!(even.lost, Some((now, millis(2))));
    }

    /// As after a change of the route: what the round trip was before is no measure of the queue.
    #[test]
    fn a_longer_path_is_no_longer_queue() {
        let mut even = smooth(EvenCubic::default());
        let mut now = even.built;
        even.took(now, millis(20), millis(20));
        for _ in 0..12 {
            now += millis(1_000);
            (60..64).for_each(|took| even.took(now, millis(took), millis(60)));
        }
        even.on_congestion_event(now, now, false, 1_200);
        assert_eq!(even.lost, Some((now, Duration::ZERO)));
    }

    /// The packets of half a millisecond: four at 100 Mbit/s, no fewer than leave together after a loss and no more than one
    /// transmit has.
    #[test]
    fn what_waits_is_one_transmit() {
        let waits = [(250_000, 20), (750_000, 20), (62_500, 5), (62_500, 20), (24_000, 1)];
        assert_eq!(
            waits.map(|(window, took)| at_the_gate(window, millis(took))),
            [6_250, 14_520, 6_250, 4_356, 3_000]
        );
    }

    #[test]
    fn first_windows_and_own_rates_are_seen() {
        for cubic_or_reno in [smooth(CubicConfig::default()), smooth(NewRenoConfig::default())] {
            assert_eq!((cubic_or_reno.first, cubic_or_reno.pacing_bps), (true, None));
        }
        let bbr = smooth(BbrConfig::default());
        assert_eq!((bbr.first, bbr.pacing_bps), (false, None), "it knows no rate yet");
        let known = smooth(crate::KnownCapacity::bits_per_second(50_000_000).unwrap());
        assert!(known.pacing_bps.is_some_and(|rate| (48_000_000..50_000_000).contains(&rate)));
    }

    /// `Connection::congestion_state` converts into the configured controller.
    #[test]
    fn it_converts_into_what_is_inside() {
        let inside = |smooth: Smooth| smooth.clone_box().into_any();
        assert!(inside(smooth(CubicConfig::default())).is::<Cubic>());
        assert!(inside(smooth(BbrConfig::default())).is::<Bbr>());
    }
}
