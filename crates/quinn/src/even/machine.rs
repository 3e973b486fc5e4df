//! [`Machine`]: the controller's decisions, with time as an argument.

use std::time::Duration;

use softtimers_core::Timestamp;

use super::cubic::{BETA, Curve};
use super::path::PathView;
use super::train::Trains;

/// A congestion window and its state. The [parent module](super) has a diagram.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// Bytes.
    mtu: f64,
    first_window: f64,
    window: f64,
    phase: Phase,
    /// The windows with which this round trip and the one before began; the packets that are queued now left
    /// under the earlier one.
    round_windows: [f64; 2],
    /// The bytes acknowledged in this round trip, and whether the program had less to send than the window holds.
    round_acked: f64,
    round_limited: bool,
    /// The round trips in a row without a queue, although the window was in use.
    round_empty: u32,
    /// Where slow start ends after a time-out.
    threshold: f64,
    path: PathView,
    trains: Trains,
    curve: Curve,
    /// Packets that left no later than this belong to the event that was handled then.
    recovery: Option<Timestamp>,
    /// When congestion avoidance began: packets that left earlier overshot the path in the search for its size.
    avoids: Timestamp,
    /// Whether nothing has been lost since the beginning.
    lossless: bool,
    built: Timestamp,
    last_ack: Timestamp,
    round_trip: Duration,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    /// Grows to two to four times in each round trip.
    Start,
    /// The path should be full, according to its trains: the window grows by an increasing amount in each
    /// round trip, until a queue shows. Holds the number of round trips since.
    Probe(usize),
    /// The round trip has become longer: an eighth more in each, until packets are lost (RFC 9406).
    Slow(Slow),
    /// CUBIC.
    Avoid,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Slow {
    rounds: u32,
    /// The shortest round trip of the round in which it began.
    base: Duration,
}

impl Machine {
    pub(super) fn new(now: Timestamp, initial_window: u64, mtu: u16) -> Self {
        // With less, quinn never sends.
        let window = (initial_window as f64).max(2.0 * f64::from(mtu));
        Machine {
            mtu: mtu.into(),
            first_window: window,
            window,
            round_windows: [window; 2],
            round_acked: 0.0,
            round_limited: false,
            round_empty: 0,
            lossless: true,
            phase: Phase::Start,
            threshold: f64::INFINITY,
            path: PathView::new(now),
            trains: Trains::default(),
            curve: Curve::from_here(0.0),
            recovery: None,
            avoids: now,
            built: now,
            last_ack: now,
            round_trip: Duration::from_secs(1),
        }
    }

    /// Records the ACK of a packet that left at `sent`; `round_trip` is the smoothed one.
    pub(super) fn acked(
        &mut self,
        now: Timestamp,
        sent: Timestamp,
        bytes: u64,
        app_limited: bool,
        round_trip: Duration,
    ) {
        if sent < self.built {
            return; // over the path before this one
        }
        let ended = self.path.acked(now, sent, bytes);
        if ended {
            self.round_windows = [self.window, self.round_windows[0]];
            self.round_acked = 0.0;
            self.round_empty = if self.leaves_room() { self.round_empty + 1 } else { 0 };
            if self.phase == Phase::Avoid && self.round_empty >= EMPTY {
                self.phase = Phase::Probe(AGAIN);
            }
            self.round_limited = false;
        }
        self.round_limited |= app_limited;
        let quiet = now.saturating_duration_since(self.last_ack);
        if app_limited {
            self.curve.pause(now, quiet);
        } else if let Some(idle) = quiet.checked_sub(2 * self.round_trip) {
            // quinn's flag describes this moment, and after an idle time there is something to send again.
            self.curve.pause(now, idle);
        }
        self.last_ack = now;
        self.round_trip = round_trip.min(now.saturating_duration_since(sent) * 2);
        if self.phase != Phase::Avoid {
            self.trains.acked(now, sent, bytes);
        }
        if app_limited || self.answered(sent) {
            return;
        }
        let bytes = bytes as f64;
        match self.phase {
            Phase::Start => self.start(bytes),
            Phase::Probe(rounds) => self.probe(rounds, bytes, ended),
            Phase::Slow(slow) => self.slow(slow, bytes, ended),
            Phase::Avoid => {
                let window = self.window / self.mtu;
                self.window = self.mtu * self.curve.grown(now, window, bytes / self.mtu, round_trip);
            }
        }
    }

    fn start(&mut self, bytes: f64) {
        self.round_acked += bytes;
        let grown = self.round_windows[0] + self.round_acked * self.growth();
        self.window = grown.max(self.window);
        if self.window >= self.threshold {
            self.window = self.threshold;
            self.avoid();
            return;
        }
        if let Some(full) = self.full().filter(|&full| self.window >= full) {
            // The trains may have agreed late. The excess then drains before it is lost.
            self.window = full.max(self.window * BETA);
            self.phase = Phase::Probe(0);
        } else if self.path.rises() {
            self.phase = Phase::Slow(Slow { rounds: 0, base: self.path.shortest() });
        }
    }

    /// Slow start's growth for each acknowledged byte: one, which doubles the window in a round trip; or up to three,
    /// as much as fills the path in this one, where the link's rate is known and no queue has shown.
    fn growth(&self) -> f64 {
        let began = self.round_windows[0];
        let lowest = || {
            let (rate, trains) = self.trains.lowest()?;
            (began < self.first_window * 4f64.powi(trains.min(8) as i32)).then_some(rate)
        };
        let rate = self.trains.rate().or_else(lowest).filter(|_| self.threshold.is_infinite());
        let Some(rate) = rate else { return 1.0 };
        let least = self.path.least.get();
        let queue = self.path.shortest().saturating_sub(least);
        if queue >= self.shows() {
            return 1.0;
        }
        let full = rate * SURE * least.as_secs_f64();
        (full / began - 1.0).clamp(1.0, QUICK)
    }

    fn probe(&mut self, rounds: usize, bytes: f64, ended: bool) {
        let Some(growth) = GROWTH.get(rounds).map(|part| part / 64.0) else {
            // There is no queue although much more is in flight: the trains' rate is wrong, or no longer
            // holds.
            self.trains.forget();
            self.phase = Phase::Start;
            return;
        };
        // A short queue holds a few packets more in each round trip, however many the path holds.
        self.window += bytes * growth.min(if rounds < STEPS { STEP * self.mtu / self.window } else { 1.0 });
        let shows = self.shows();
        let part_of_a_round = (self.window / self.mtu * PART) as u32;
        // A part of the first round has left in slow start.
        let standing =
            self.path.standing(part_of_a_round).filter(|&standing| rounds > 0 && standing >= shows);
        if let Some(standing) = standing {
            // The queue results from the window of the previous round trip. What was added since drains,
            // except for the amount that shows: with less, the queue would run empty at each late wake-up.
            let least = self.path.least.get();
            let kept = (least + shows).as_secs_f64() / (least + standing).as_secs_f64();
            let of = if rounds > 1 { self.round_windows[1] } else { self.window };
            self.window = (of * kept).max(self.least_window());
            self.avoid();
        } else if ended {
            self.phase = Phase::Probe(rounds + 1);
        }
    }

    fn slow(&mut self, slow: Slow, bytes: f64, ended: bool) {
        self.window += bytes / 8.0;
        let Slow { rounds, base } = slow;
        if ended && rounds > 0 && self.path.shortest() < base {
            // The round trip had been longer for another reason.
            self.phase = Phase::Start;
        } else if ended && rounds == SLOW_ROUNDS {
            self.avoid();
        } else if ended {
            self.phase = Phase::Slow(Slow { rounds: rounds + 1, base });
        }
    }

    /// Reacts to losses, the latest of a packet that left at `sent`; or to a mark on such a packet.
    pub(super) fn lost(&mut self, now: Timestamp, sent: Timestamp, persistent: bool) {
        if sent < self.built || self.answered(sent) {
            return;
        }
        // The packets in flight beyond the new window drain first: losses among them belong to this event.
        self.recovery = Some(now);
        self.lossless = false;
        let before = self.window;
        if self.phase == Phase::Avoid && sent >= self.avoids {
            self.window = (before * BETA).max(self.least_window());
            self.curve = self.curve.cut(before / self.mtu, self.window / self.mtu);
        } else {
            // With the window at the delivered amount, the overshoot is gone.
            let least = if self.phase == Phase::Start { before / 2.0 } else { before * BETA };
            // The trains tell what the link carries, and only what was delivered says whether it is this flow's.
            let delivered = self.path.delivered();
            let full = self.full().filter(|full| delivered >= full * BETA).unwrap_or(0.0);
            let holds = delivered.max(full);
            self.window = holds.max(least).min(before).max(self.least_window());
            self.avoid();
        }
        if persistent {
            self.threshold = self.window;
            self.window = self.least_window();
            self.phase = Phase::Start;
            self.path = PathView::new(now);
            self.trains.forget();
        }
    }

    /// Returns whether the last round trip had no queue although the window was in use: what looked like one was a late
    /// wake-up, or another's traffic that has ended. After a loss others may have left that room, and CUBIC decides.
    fn leaves_room(&self) -> bool {
        self.lossless && !self.round_limited && self.path.queued_before() < self.shows() / 4
    }

    fn avoid(&mut self) {
        self.round_empty = 0;
        self.avoids = self.last_ack;
        self.phase = Phase::Avoid;
        self.curve = Curve::from_here(self.window / self.mtu);
    }

    /// Returns the path's capacity in bytes, according to its trains.
    fn full(&self) -> Option<f64> {
        Some(self.trains.rate()? * SURE * self.path.least.get().as_secs_f64())
    }

    /// The shortest delay that counts as a queue, and not as the jitter of wake-ups.
    fn shows(&self) -> Duration {
        let packets = self.trains.rate().map_or(0.0, |rate| SHOWS * self.mtu / rate);
        Duration::from_secs_f64(packets.min(1.0)).max(JITTER)
    }

    fn answered(&self, sent: Timestamp) -> bool {
        self.recovery.is_some_and(|since| sent <= since)
    }

    fn least_window(&self) -> f64 {
        2.0 * self.mtu
    }

    pub(super) fn set_mtu(&mut self, mtu: u16) {
        let mtu = f64::from(mtu);
        self.curve.scale(self.mtu / mtu);
        self.mtu = mtu;
        self.window = self.window.max(self.least_window());
    }

    pub(super) fn window(&self) -> u64 {
        self.window as u64
    }

    /// The window at which slow start ends; the present one once it has ended.
    pub(super) fn threshold(&self) -> u64 {
        if self.phase == Phase::Start { self.threshold as u64 } else { self.window() }
    }

    /// Returns whether packets should leave in trains, because the link's rate is not known yet. quinn's hold two milliseconds:
    /// in a large window that is more than a short queue does.
    pub(super) fn wants_trains(&self) -> bool {
        self.phase == Phase::Start
            && self.threshold.is_infinite()
            && self.trains.rate().is_none()
            && self.window * 2e-3 <= TRAIN * self.mtu * self.path.least.get().as_secs_f64()
    }

    /// Returns the pacing rate in bytes a second, if it does not follow from the window: no faster than the
    /// link until Probe.
    pub(super) fn pace(&self) -> Option<f64> {
        let by_window = self.window / self.path.least.get().as_secs_f64();
        match self.phase {
            Phase::Start => Some((self.trains.rate()? * SURE).min(by_window * 1.25)),
            Phase::Probe(_) => Some(by_window * 1.03),
            Phase::Slow(_) => None,
            Phase::Avoid => Some(self.window / self.round_trip.as_secs_f64() * GAIN),
        }
    }
}

/// The most that slow start grows for each acknowledged byte, as SUSS (SIGCOMM 2024) does: the window is four times as
/// large after a round trip.
const QUICK: f64 = 3.0;
/// The growth of the window in each round trip after the path is full according to the trains, in sixty-fourths. The first
/// partial round trip and a whole one let the packets in flight become even.
const GROWTH: [f64; 16] = [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0];
/// Round trips without a queue after which Probe begins again, and where.
const EMPTY: u32 = 3;
const AGAIN: usize = 2;
/// Packets by which it grows at most in each of the first round trips.
const STEP: f64 = 6.0;
const STEPS: usize = 10;
/// Round trips of growth by an eighth (RFC 9406).
const SLOW_ROUNDS: u32 = 5;
/// The packets of the longest train.
const TRAIN: f64 = 16.0;
/// Trains are accurate to a few percent.
const SURE: f64 = 0.97;
/// The rate once the window decides, in windows per round trip. quinn's pacer has 1.25: packets then leave
/// early in a round trip and overflow a short queue that would have held them. Above one, the window stops
/// the sender now and then, and each transmit has only the packets for which an ACK has made room.
const GAIN: f64 = 1.0;
/// The share of a round trip's packets all of which a queue has delayed, if it shows.
const PART: f64 = 0.25;
/// The number of queued packets that counts as a queue, and that it then keeps; and the jitter of wake-ups.
const SHOWS: f64 = 4.0;
const JITTER: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests;
