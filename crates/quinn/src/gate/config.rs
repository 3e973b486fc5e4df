//! The input of a [`Gate`](super::Gate): its configuration, and the congestion controller's window.

use std::time::Duration;

use softtimers_core::Percent;

/// The configuration of a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GateConfig {
    /// False lets everything pass, as without a gate.
    pub enabled: bool,
    /// The longest time for which a transmit waits, and with it the ACKs behind it: 5 ms.
    pub max_extra_delay: Duration,
    /// The interval between releases of more than three packets after a loss: 100 µs. A faster connection sends more
    /// packets at once, and so needs no more wake-ups.
    pub release_interval: Duration,
    /// The same while the path has lost no packet for ten seconds: 500 µs. After a loss three packets leave together
    /// if they are no more than three times this, otherwise `least_segments`. Zero here and above, with a least of one packet, sends
    /// one at a time.
    pub lossless_interval: Duration,
    /// The fewest packets that leave together: 2, which the kernel takes in one call for half the cost. If
    /// two would be more than a millisecond apart, one leaves at a time.
    pub least_segments: usize,
    /// The share of quinn's own pacing rate: 90%. See the [module](super).
    pub share: Percent,
    /// Transmits of fewer bytes pass at once: 300.
    pub pass_below: u32,
}

impl Default for GateConfig {
    fn default() -> Self {
        GateConfig {
            enabled: true,
            max_extra_delay: Duration::from_millis(5),
            release_interval: Duration::from_micros(100),
            lossless_interval: Duration::from_micros(500),
            least_segments: 2,
            share: SHARE,
            pass_below: 300,
        }
    }
}

/// The congestion controller's answer when quinn asks whether there is room for another packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The congestion window in bytes.
    pub bytes: u64,
    /// The smoothed round-trip time.
    pub round_trip: Duration,
    /// True while it is still about as large as it was at the beginning.
    pub first: bool,
    /// The delay of the path's queue when it last dropped a packet; `None` if it has not done so recently.
    pub queue: Option<Duration>,
    /// The controller's own pacing rate in bits a second, if it has one. It is used unchanged, with a floor
    /// of an eighth of the window per round trip: a rate that was measured while no packet could leave would
    /// block for good.
    pub pacing_bps: Option<u64>,
}

impl GateConfig {
    /// The rate for a window; at least one bit a second.
    pub(super) fn bits_per_second(&self, window: Window) -> u64 {
        // In thousandths of a window for each round trip.
        let by_window = |gain: u128| {
            let bits = u128::from(window.bytes) * 8 * gain * 1_000_000;
            u64::try_from(bits / window.round_trip.as_nanos().max(1)).unwrap_or(u64::MAX).max(1)
        };
        match window.pacing_bps {
            // Before the first ACK there is no round-trip time.
            Some(pacing) if window.round_trip.is_zero() => pacing.max(1),
            Some(pacing) => pacing.max(by_window(FLOOR)),
            None if window.first => by_window(2_000),
            None => by_window(u128::from(self.share.get()) * 1_250 / 100),
        }
    }
}

/// The best of 80, 90 and 100% by goodput through a short queue.
const SHARE: Percent = match Percent::new(90) {
    Ok(share) => share,
    Err(_) => Percent::ALL,
};
/// The least rate, in thousandths of a window for each round trip.
const FLOOR: u128 = 125;
