//! [`Curve`]: the growth of the window after a cut, CUBIC as in RFC 9438.
//!
//! ```text
//!   window
//!   w_max ┤ ●            ___────────___●   convex: looks for more
//!         │ │        _─'               
//!         │ │     ,'  concave: back to where the path was full
//!  0.7    │ └──●'
//!         └────┼────────── K ──────────────▶ time since the cut
//! ```
//!
//! K, the time until the window is at `w_max` again, is computed from the distance of the window *after* the
//! cut (equation 2 of RFC 9438). Computed from `w_max` alone, as in RFC 8312, a second cut soon after the
//! first leaves the window above the curve, where it stands still until the curve reaches it.

use std::time::Duration;

use softtimers_core::Timestamp;

/// The window in packets as a function of time, from one cut to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    /// The window at which the path was full.
    w_max: f64,
    /// The time after the cut at which the window reaches it again.
    k: f64,
    /// Begins with the first ACK after the cut.
    epoch: Option<Timestamp>,
    /// Reno's window by now.
    reno: f64,
}

impl Curve {
    /// Makes the curve without a cut: the window grows from here.
    pub(super) fn from_here(window: f64) -> Self {
        Curve { w_max: window, k: 0.0, epoch: None, reno: window }
    }

    /// Returns the curve after a cut by [`BETA`] from `prior`; `self` is the previous curve.
    pub(super) fn cut(&self, prior: f64, window: f64) -> Self {
        // Fast convergence: a flow that had to reduce releases bandwidth for new flows (4.7).
        let w_max = if prior < self.w_max { prior * (1.0 + BETA) / 2.0 } else { prior };
        let k = ((w_max - window).max(0.0) / C).cbrt();
        Curve { w_max, k, epoch: None, reno: window }
    }

    /// Returns the window after an ACK for `acked` packets.
    pub(super) fn grown(&mut self, now: Timestamp, window: f64, acked: f64, round_trip: Duration) -> f64 {
        let epoch = *self.epoch.get_or_insert(now);
        let time = (now.saturating_duration_since(epoch) + round_trip).as_secs_f64() - self.k;
        let target = (C * time.powi(3) + self.w_max).clamp(window, window * 1.5);
        self.reno += ALPHA * acked / window;
        let cubic = window + (target - window) * acked / window;
        // Nothing is faster than slow start.
        cubic.max(self.reno).min(window + acked)
    }

    /// Excludes a time in which the program had nothing to send: the window could not have grown then (5.8).
    pub(super) fn pause(&mut self, now: Timestamp, time: Duration) {
        self.epoch = self.epoch.map(|epoch| (epoch + time).min(now));
    }

    /// Adapts to another packet length: the same bytes are `by` times as many packets.
    pub(super) fn scale(&mut self, by: f64) {
        (self.w_max, self.reno) = (self.w_max * by, self.reno * by);
    }
}

/// Packets a second cubed.
const C: f64 = 0.4;
/// The share of the window that a cut leaves.
pub(super) const BETA: f64 = 0.7;
/// Reno's growth in packets in a round trip: three quarters of the growth at which [`BETA`] gives the same mean window as Reno
/// with a cut to a half.
///
/// An even sender meets fewer of the drops of a shared queue than one that sends lumps, and would take
/// bandwidth from the latter. For the same reason it does not grow by a whole packet beyond the window before
/// the cut, as RFC 9438 specifies (4.3) but Linux and quinn do not.
const ALPHA: f64 = 0.75 * 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// The window of each round trip for `seconds`, with ACKs for all of it.
    fn run(mut curve: Curve, mut window: f64, seconds: f64) -> Vec<f64> {
        let rounds = (seconds / ROUND_TRIP.as_secs_f64()) as u64;
        let each = |round: u64| {
            let acks = window as u64;
            for ack in 0..acks {
                let now = Timestamp::from_micros(round * 100_000) + ROUND_TRIP * ack as u32 / acks as u32;
                window = curve.grown(now, window, 1.0, ROUND_TRIP);
            }
            window
        };
        (0..rounds).map(each).collect()
    }

    #[test]
    fn the_window_is_back_after_k() {
        // (200 · 0.3 / 0.4)^(1/3) = 5.3 s.
        let windows = run(Curve::from_here(200.0).cut(200.0, 140.0), 140.0, 7.0);
        let at = |seconds: f64| windows[(seconds * 10.0) as usize - 1];
        assert!((165.0..195.0).contains(&at(2.0)), "{}", at(2.0));
        assert!((198.0..202.0).contains(&at(5.3)), "{}", at(5.3));
        assert!(at(7.0) > 201.0, "{}", at(7.0));
    }

    /// Two cuts in a row, with fast convergence: it grows from the first round on.
    #[test]
    fn after_two_cuts_it_does_not_stand_still() {
        let first = Curve::from_here(200.0).cut(200.0, 140.0);
        let second = first.cut(140.0, 98.0);
        let windows = run(second, 98.0, 2.0);
        let rises = windows.windows(2).filter(|pair| pair[1] > pair[0] + 0.05).count();
        assert_eq!(rises, windows.len() - 1, "{windows:?}");
    }

    /// At short round trips and small windows Reno is ahead, and the window follows it.
    #[test]
    fn it_is_no_slower_than_reno() {
        let windows = run(Curve::from_here(10.0).cut(10.0, 7.0), 7.0, 1.0);
        // Ten round trips of 0.4 packets.
        assert!(*windows.last().unwrap_or(&0.0) > 10.5, "{windows:?}");
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut curve = Curve::from_here(100.0);
        let mut window = curve.grown(Timestamp::ZERO, 100.0, 1.0, ROUND_TRIP);
        let minute = Duration::from_secs(60);
        curve.pause(Timestamp::ZERO + minute, minute);
        window = curve.grown(Timestamp::ZERO + minute, window, 1.0, ROUND_TRIP);
        assert!(window < 100.1, "{window}");
    }
}
