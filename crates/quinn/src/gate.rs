//! [`Gate`] decides when a transmit that quinn has built may leave, without a socket or a clock.
//!
//! quinn paces by a bucket of two milliseconds, at least ten packets, because the timers it can rely on are
//! no finer. So the packets of a window leave in lumps, and a short queue on the path drops packets that a
//! long one would have held. The gate is placed behind that, before the socket, and lets one small transmit
//! through at a time:
//!
//! ```text
//!   quinn       ●●●●●●●●●●                    ●●●●●●●●●●              its bucket
//!   the gate    ●● · · ●● · · ●● · · ●● · · ●● · · ●● · · ●●          a few at 9/8 window ÷ round trip
//!                    └ refused: "would block"; the connection waits on a timer, or for its next ACK
//! ```
//!
//! Nothing is queued and nothing copied. A transmit that is refused stays with quinn, which builds no other
//! before this one has left: at most one is built early, so times of sending and the order stay true.
//!
//! # Transmits that pass at once
//!
//! While a transmit waits, its connection can send nothing else, not even an ACK. So none waits longer than
//! [`max_extra_delay`](GateConfig::max_extra_delay), and these don't wait at all:
//!
//! - those that quinn builds without asking the congestion controller: ACKs alone, probes after a time-out;
//! - small ones, such as a CONNECTION_CLOSE;
//! - all before a rate is known, as in the handshake.
//!
//! # ACKs first, the timer second
//!
//! An incoming ACK is a free poll, and on a busy connection one comes for each pair. So a transmit may leave
//! with a poll from half a gap before its time on; the timer is for the case that none has come a quarter of
//! a gap after it. While ACKs come in time, the timer may be later still, and is set again only when
//! necessary: setting it and being woken by it are most of the cost of sending evenly.
//!
//! ```text
//!            ┌──── any poll ────┬─ due ┬───── any poll ──────┐
//!   last ────┼──────────────────┼──────●─────────────────────┼──────▶
//!           gap/2                      gap        timer: a quarter later, or up to two gaps while ACKs come
//! ```
//!
//! # Late wake-ups
//!
//! A task is woken some tens of microseconds after its time, which is not much less than the gap between two
//! pairs. So the gate learns that lateness, and wakes the task that much earlier; but never within half a gap
//! of the transmit before. A stall is made up by at most ten packets, at nine sixteenths of the gaps: more
//! would overflow a short queue by themselves.
//!
//! # How many at once
//!
//! While the path has lost no packet, the packets of 500 µs leave together, because its queue has room for
//! them. For ten seconds after a loss they leave three at a time, or one by one if three are more
//! than 1.5 ms; or as many as fill a quarter of the queue, whose length is known from the delay before the loss.
//!
//! # The rate
//!
//! quinn's own pacer refills its bucket at 1.25 · window ÷ round-trip time. The gate uses nine tenths of
//! that: slower than the bucket, it is never stopped by it; at the same rate, the bucket empties now and then
//! and blocks until it is full again. Only the first window leaves at 2 · window ÷ round-trip time: otherwise
//! a short answer would end later needlessly. Unlike in Linux, not all of slow start does: twice the rate
//! fills a short queue at half the window that the path holds, and the loss ends slow start there.

use std::time::Duration;

use softtimers_core::{CatchUp, PaceConfig, Rate, RateClock, Timestamp};

use crate::Counters;

mod config;

pub use config::{GateConfig, Window};

/// The decision about a transmit that is [offered](Gate::offer).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The transmit may leave now.
    Leave,
    /// Not before this time.
    Wait(Timestamp),
}

/// The gate of one connection.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_quinn::gate::{Gate, GateConfig, Verdict, Window};
///
/// let mut gate = Gate::new(GateConfig::default());
/// let at = Timestamp::from_micros;
/// let window = Window {
///     bytes: 200_000,
///     round_trip: Duration::from_millis(18),
///     first: false,
///     queue: Some(Duration::ZERO),
///     pacing_bps: None,
/// };
/// // 9/8 of 200 kB in 18 ms are 12.5 bytes/µs.
/// assert_eq!(gate.begin(10), 2);
/// gate.asked(window);
/// assert_eq!(gate.offer(at(1_000), 2, 2_500), Verdict::Leave);
/// gate.departed(at(1_000), 2, 2_500);
///
/// assert_eq!(gate.begin(10), 3);
/// gate.asked(window);
/// assert_eq!(gate.offer(at(1_004), 3, 3_750), Verdict::Wait(at(1_250)));
/// assert_eq!(gate.offer(at(1_190), 3, 3_750), Verdict::Leave); // an ACK came; the same transmit is offered again
/// ```
///
/// # Cost
/// Some 300 bytes; everything is O(1). A window that differs from the last costs a division of 128 bits and
/// a greatest common divisor, about 0.2 µs.
#[derive(Clone, Debug)]
pub struct Gate {
    config: GateConfig,
    /// `None` until a rate is known.
    clock: Option<RateClock>,
    /// The time from which the next transmit may leave.
    due: Timestamp,
    /// The window from which the clock's rate was computed.
    current: Option<Window>,
    /// The controller's answer since the last transmit was offered.
    asked: Option<Window>,
    /// Whether the controller leaves pacing to quinn's own pacer.
    unpaced: bool,
    /// A transmit that was offered and has not left.
    in_hand: Option<InHand>,
    /// The recent length of a packet.
    segment: u32,
    last: Departure,
    /// The mean lateness of wake-ups.
    lateness: Duration,
    /// The number of releases in a row for which a poll came before the timer.
    punctual: u32,
    counters: Counters,
}

/// The last departure, and the gap after it.
#[derive(Clone, Copy, Debug, Default)]
struct Departure {
    at: Timestamp,
    gap: Duration,
}

/// When a transmit that waits may leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    /// From then on with any poll.
    pub(crate) from: Timestamp,
    /// The range for the timer: one set between the two need not be set again.
    pub(crate) timer: [Timestamp; 2],
}

#[derive(Clone, Copy, Debug)]
struct InHand {
    since: Timestamp,
    /// The controller's answer while it was built; `None` if it was not asked.
    window: Option<Window>,
    /// When the timer should wake up for it, and when it must.
    until: Option<Timestamp>,
    at_the_latest: Timestamp,
    /// Whether it has waited for the maximum time.
    overdue: bool,
    /// Whether it was released once, but did not leave because the socket was full.
    let_go: bool,
}

impl Gate {
    /// Makes a gate without a rate.
    pub fn new(config: GateConfig) -> Self {
        Gate {
            config,
            clock: None,
            due: Timestamp::ZERO,
            current: None,
            asked: None,
            unpaced: false,
            in_hand: None,
            segment: 1_200,
            last: Departure::default(),
            lateness: Duration::ZERO,
            punctual: 0,
            counters: Counters::default(),
        }
    }

    /// Switches the gate on or off. When it is off, a transmit that waits may leave.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.config.enabled = enabled;
    }

    /// Notes that quinn has asked the controller for the window, to build a transmit.
    pub fn asked(&mut self, window: Window) {
        self.asked = Some(window);
        self.unpaced = false;
    }

    /// Notes that quinn has asked a controller that leaves pacing to quinn: the transmit built now passes.
    pub fn asked_unpaced(&mut self) {
        self.asked = None;
        self.unpaced = true;
    }

    /// Notes that quinn begins to build transmits; returns the number of packets that each should have, at
    /// most `most`.
    pub fn begin(&mut self, most: usize) -> usize {
        // Last time it may have asked without building a transmit.
        self.asked = None;
        self.quantum(most)
    }

    fn quantum(&self, most: usize) -> usize {
        if !self.config.enabled || self.unpaced {
            return most;
        }
        // quinn asks once for several transmits, and after the first of them there may be a rate.
        let Some(clock) = &self.clock else { return self.config.least_segments.clamp(1, most.max(1)) };
        let packet = clock.time_of(1, self.segment.into()).as_nanos().max(1);
        let within = |time: Duration| usize::try_from(time.as_nanos() / packet).unwrap_or(most);
        let far_apart = packet * 2 > FAR_APART.as_nanos();
        let GateConfig { release_interval, lossless_interval, .. } = self.config;
        let wanted = match self.current.map_or(Some(Duration::ZERO), |window| window.queue) {
            Some(queue) => {
                let longer = if far_apart { 1 } else { LOSSY_LONGER };
                within(release_interval.max(lossless_interval.min(queue / PARTS_OF_QUEUE)))
                    .max(within(lossless_interval.saturating_mul(longer)).min(LOSSY_MOST))
            }
            None => within(lossless_interval),
        };
        let least = if far_apart { 1 } else { self.config.least_segments };
        wanted.max(least).clamp(1, most.max(1))
    }

    /// Offers a transmit of `packets` packets with `bytes` bytes in all. One that had to wait, or that the
    /// socket did not take, must be offered next.
    ///
    /// Times must not go backwards.
    pub fn offer(&mut self, now: Timestamp, packets: u32, bytes: u32) -> Verdict {
        let asked = self.asked.take();
        let known = self.in_hand.is_some();
        let mut hand = self.in_hand.unwrap_or(InHand {
            since: now,
            window: asked,
            until: None,
            at_the_latest: now,
            overdue: false,
            let_go: false,
        });
        if let (false, Some(window)) = (known, hand.window) {
            self.segment = (bytes / packets.max(1)).max(1);
            self.set_window(now, window);
        }
        let last = hand.since + self.config.max_extra_delay;
        let passes = !self.config.enabled || hand.window.is_none() || bytes < self.config.pass_below;
        let from = self.may_leave_from();
        if passes || hand.let_go || now >= from || now >= last {
            self.let_go(now, hand, passes);
            return Verdict::Leave;
        }
        self.counters.gated += u64::from(hand.until.is_none());
        let until = self.timer().min(last);
        hand.until = Some(until);
        hand.at_the_latest = (until + self.patience()).min(last);
        self.in_hand = Some(hand);
        Verdict::Wait(until)
    }

    /// Returns the time from which any poll may release it: half a gap before its time, and after the one
    /// before it.
    ///
    /// This keeps a schedule whose departures are as often a little early as late. If they were always late,
    /// the gate could never catch up at gaps below some two wake-ups.
    fn may_leave_from(&self) -> Timestamp {
        let Departure { at, gap } = self.last;
        self.due.saturating_sub(gap / 2).max(at + gap / 2).min(self.due)
    }

    /// Returns when to wake up for it: a quarter of a gap after its time, less the expected lateness of the
    /// wake-up.
    fn timer(&self) -> Timestamp {
        let from = self.may_leave_from();
        (self.due + self.last.gap / 4).saturating_sub(self.lateness).max(from)
    }

    /// Returns by how much the timer may be later, because polls come without it.
    fn patience(&self) -> Duration {
        self.last.gap * self.punctual.min(MOST_PUNCTUAL) / 4
    }

    fn let_go(&mut self, now: Timestamp, mut hand: InHand, passes: bool) {
        if !hand.let_go {
            let held = now.saturating_duration_since(hand.since);
            self.counters.longest_held = self.counters.longest_held.max(held);
            self.counters.passed += u64::from(passes && hand.until.is_none());
            hand.overdue = !passes && now < self.may_leave_from();
            self.counters.overdue += u64::from(hand.overdue);
            self.learn(now, &hand);
        }
        hand.let_go = true;
        hand.until = None;
        self.in_hand = Some(hand);
    }

    /// Learns from the departure of a transmit that had to wait: before the timer, or with it and then late
    /// by some time. Departures between the two times at which the timer may be set count as neither.
    fn learn(&mut self, now: Timestamp, hand: &InHand) {
        let Some(until) = hand.until else { return };
        if now < hand.at_the_latest {
            // The timer has not gone off, or was set for an earlier time: a poll came without it.
            self.punctual = (self.punctual + u32::from(now < until)).min(MOST_PUNCTUAL);
            return;
        }
        self.punctual /= 2;
        let late = now.saturating_duration_since(hand.at_the_latest);
        // Longer delays have other causes: another thread's slice, a stopped machine.
        if late < Duration::from_millis(1) {
            self.lateness = (self.lateness * 7 + late) / 8;
        }
    }

    /// Counts a transmit that has left.
    pub fn departed(&mut self, now: Timestamp, packets: u32, bytes: u32) {
        let hand = self.in_hand.take();
        let paced = hand.filter(|hand| hand.window.is_some());
        if let (Some(hand), Some(clock)) = (paced, &mut self.clock) {
            if hand.overdue {
                // Forgive the time by which it left early, or a slow connection would wait ever longer.
                clock.start(now);
            }
            self.last = Departure { at: now, gap: clock.time_of(packets, bytes.into()) };
            self.due = clock.departed_together(now, packets, bytes);
        }
    }

    /// Returns when to offer the last transmit again, if it has to wait.
    pub fn waits_until(&self) -> Option<Timestamp> {
        self.in_hand.filter(|_| self.config.enabled)?.until
    }

    /// Returns when the last transmit may be offered again, if it has to wait.
    pub(crate) fn held(&self) -> Option<Release> {
        let hand = self.in_hand.filter(|_| self.config.enabled)?;
        let earliest = hand.until?;
        Some(Release { from: self.may_leave_from().min(earliest), timer: [earliest, hand.at_the_latest] })
    }

    /// Returns the rate in bits a second, once it is known.
    pub fn rate_bps(&self) -> Option<u64> {
        let second = self.clock.as_ref()?.time_of(1, 1 << 20).as_nanos().max(1);
        u64::try_from((8_000_000_000u128 << 20) / second).ok()
    }

    /// Returns the counts since the last call.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    fn set_window(&mut self, now: Timestamp, window: Window) {
        if self.current == Some(window) {
            return;
        }
        let Ok(rate) = Rate::bytes(self.config.bits_per_second(window)) else { return };
        self.current = Some(window);
        if let Some(clock) = &mut self.clock {
            self.due = clock.set_rate(now, rate);
            return;
        }
        let pace = PaceConfig {
            counts: softtimers_core::Counts::Bytes,
            catch_up: CATCH_UP,
            ..PaceConfig::new(rate)
        };
        // Bytes at a constant rate are always valid.
        self.clock = RateClock::new(pace).ok();
        self.due = self.clock.as_mut().map_or(now, |clock| clock.start(now));
    }
}

/// The packets of a stall that are made up, in nine sixteenths of the gaps. It is the minimum of quinn's
/// bucket, which would send them at once; the queue on the path has drained by as much meanwhile. In time
/// alone, 2 ms, it would be 50 packets at 300 Mbit/s, which a short queue does not hold.
const CATCH_UP: CatchUp = CatchUp { time: Duration::from_millis(2), packets: 10 };
/// Packets that leave together after a loss, except at rates at which these would be less than a release
/// interval: each release costs a system call and often a wake-up, and a short queue that holds two holds
/// three.
const LOSSY_MOST: usize = 3;
/// Packets may leave together that fill at most a quarter of the queue.
const PARTS_OF_QUEUE: u32 = 4;
/// Lossless intervals for which these may last: at 25 Mbit/s, a flow's share of a link, they are 1.2 ms.
const LOSSY_LONGER: u32 = 3;
/// Quarters of a gap by which the timer is later, at most.
const MOST_PUNCTUAL: u32 = 8;
/// Two packets further apart than this need not share a call: at that rate the cost of calls is negligible.
const FAR_APART: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
