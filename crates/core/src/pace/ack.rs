//! Pacing of the packets that ACKs release: [`AckPacer`] spreads lumps and passes everything else through.
//!
//! A self-clocked sender (TCP, QUIC without a pacer) sends when ACKs come and as many packets as they
//! release, so what happens to ACKs happens to its packets. Two things do (soft timers A.1, A.3): ACKs
//! queue up on the way back and arrive together, and a busy receiver acknowledges many packets at once.
//!
//! ```text
//!   ACKs            │   │   │            │││││          │   │   20   │    a compressed burst; a big ACK
//!   self-clocked    ●   ●   ●            ●●●●●          ●   ●   ●●●●●●●●●●●●●●●●●●●●
//!   paced           ●   ●   ●            ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  …
//!                   └ passes through ┘   └ 0.9 of the mean gap until nothing waits
//! ```
//!
//! Spacing is nine tenths of the mean, not the mean itself: at the mean a backlog would never shrink, because
//! packets arrive as fast as they leave. So a lump of ten is gone after a hundred packets' time, and the pipe
//! is full again; cutting the window or capping the burst instead (A.3) drains it.
//!
//! With the packets on a clock of their own, when ACKs are *read* no longer matters: a loop may poll for
//! them and take twenty at once (§5.8).

use core::time::Duration;

use super::AckRate;
use crate::time::saturating_nanos;
use crate::{Percent, Rate, Timestamp};

/// Departure times for the packets that ACKs release. It reads no clock and sends nothing: tell it of each
/// ACK and of each packet that left, and it returns when the next one may leave. One event is outstanding per
/// flow, and none while nothing waits.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{AckPacer, Rate, Timestamp};
///
/// let known = Rate::every(Duration::from_micros(100))?;
/// let mut pacer = AckPacer::starting_at(known);
/// let at = Timestamp::from_micros;
///
/// // An ACK that releases two packets: the first leaves at once, the other soon.
/// assert_eq!(pacer.on_ack(at(1_000), 2), Some(at(1_000)));
/// assert_eq!(pacer.departed(at(1_000)), Some(at(1_056) + Duration::from_nanos(250)));
/// assert_eq!(pacer.departed(at(1_057)), None);
///
/// // One that releases five: 90 µs apart.
/// assert_eq!(pacer.on_ack(at(1_500), 5), Some(at(1_500)));
/// assert_eq!(pacer.departed(at(1_500)), Some(at(1_590)));
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
///
/// # Cost
/// 168 bytes, no allocation, however many packets wait; each call is O(1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckPacer {
    /// `None` is nine sixteenths of the mean gap, and zero while there is no mean.
    burst_interval: Option<Duration>,
    big_ack: u64,
    /// A share of the mean gap.
    spacing: Percent,
    rate: AckRate,
    /// Released and not yet sent.
    waiting: u64,
    /// The scheduled time of the next departure, the time at which it may leave, and the last one.
    place: Timestamp,
    due: Timestamp,
    last: Option<Timestamp>,
    /// True from a lump until an ACK finds nothing waiting.
    spreading: bool,
    compressed: u64,
    big: u64,
}

impl AckPacer {
    /// Makes a pacer that learns the mean from the first ACKs; until then only the burst interval separates
    /// packets.
    pub fn new() -> Self {
        AckPacer::with(AckRate::new())
    }

    /// Makes a pacer that starts from a rate: given, estimated, or stored from the last busy period.
    pub fn starting_at(rate: Rate) -> Self {
        AckPacer::with(AckRate::starting_at(rate))
    }

    /// Sets the shortest gap between two departures, whatever ACKs say. Without it, it is nine sixteenths of the mean
    /// gap, as for a [`RateClock`](super::RateClock), and zero while there is no mean.
    #[must_use]
    pub fn with_burst_interval(self, burst_interval: Duration) -> Self {
        AckPacer { burst_interval: Some(burst_interval), ..self }
    }

    /// Sets how many packets an ACK may release before it counts as big. Without it 3: every third packet is
    /// acknowledged at most, so an ACK for more was delayed (soft timers A.3).
    #[must_use]
    pub fn with_big_ack(self, big_ack: u64) -> Self {
        AckPacer { big_ack, ..self }
    }

    /// Sets the spacing of spread packets, as a share of the mean gap. Without it 90%.
    #[must_use]
    pub fn with_spacing(self, spacing: Percent) -> Self {
        AckPacer { spacing, ..self }
    }

    fn with(rate: AckRate) -> Self {
        AckPacer {
            burst_interval: None,
            big_ack: 3,
            spacing: SPACING,
            rate,
            waiting: 0,
            place: Timestamp::ZERO,
            due: Timestamp::ZERO,
            last: None,
            spreading: false,
            compressed: 0,
            big: 0,
        }
    }

    /// Takes an ACK, or an update of the receiver's window, that lets `packets` packets leave. Returns
    /// when the next one may; `None` if none waits.
    ///
    /// Times must not go backwards.
    pub fn on_ack(&mut self, now: Timestamp, packets: u64) -> Option<Timestamp> {
        let compressed = self.rate.on_ack(now, packets);
        let big = packets > self.big_ack;
        self.compressed += u64::from(compressed);
        self.big += u64::from(big);
        self.release(now, packets, compressed || big)
    }

    /// After an idle time, or at the start, the window lets `packets` packets leave without an ACK. They
    /// leave at the stored mean rate, no two together (soft timers §6, A.2). Returns when the next one may.
    pub fn restart(&mut self, now: Timestamp, packets: u64) -> Option<Timestamp> {
        self.rate.idle();
        self.release(now, packets, true)
    }

    /// Counts a packet that left at `now`; returns when the next one may, or `None` if none waits.
    ///
    /// Lateness is made up, for a few packets and never within the burst interval: if each departure were
    /// counted from the one before, the lateness of every trigger state would stretch the train.
    pub fn departed(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.waiting = self.waiting.saturating_sub(1);
        self.last = Some(now);
        if self.waiting == 0 {
            return None;
        }
        let spacing = self.spacing();
        self.place = self.place.max(now.saturating_sub(spacing * MOST_BEHIND)) + spacing;
        self.due = self.place.max(now + self.burst_interval());
        self.poll_at()
    }

    /// Revokes the packets that wait: the window is gone, as after a time-out. Returns their number.
    pub fn revoke(&mut self) -> u64 {
        self.spreading = false;
        core::mem::take(&mut self.waiting)
    }

    /// Returns when the next packet may leave; `None` if none waits.
    pub fn poll_at(&self) -> Option<Timestamp> {
        (self.waiting > 0).then_some(self.due)
    }

    /// Returns the number of packets that were released and have not left.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns the rate at which ACKs come; store it for the next busy period, see
    /// [`StartRate`](super::StartRate).
    pub fn rate(&self) -> &AckRate {
        &self.rate
    }

    /// Returns the number of ACKs that came in less than half their time.
    pub fn compressed_acks(&self) -> u64 {
        self.compressed
    }

    /// Returns the number of ACKs that released more packets than [an ordinary one](Self::with_big_ack).
    pub fn big_acks(&self) -> u64 {
        self.big
    }

    fn release(&mut self, now: Timestamp, packets: u64, spread: bool) -> Option<Timestamp> {
        if packets == 0 {
            return self.poll_at();
        }
        if self.waiting == 0 || (spread && !self.spreading) {
            // A lump ends one spacing after its last packet, or the next one would follow close behind.
            let over = self.waiting == 0 && self.last.is_none_or(|last| now >= last + self.spacing());
            self.spreading = spread || (self.spreading && !over);
            self.place = self.last.map_or(now, |last| now.max(last + self.spacing()));
            self.due = self.place;
        }
        self.waiting = self.waiting.saturating_add(packets);
        self.poll_at()
    }

    /// The time from one scheduled time to the next.
    fn spacing(&self) -> Duration {
        let burst = self.burst_interval();
        match self.rate.gap() {
            Some(mean) if self.spreading => self.spacing.share_of(mean).max(burst),
            _ => burst,
        }
    }

    fn burst_interval(&self) -> Duration {
        let of_mean = || self.rate.gap().map_or(Duration::ZERO, |gap| gap * 9 / 16);
        Duration::from_nanos(saturating_nanos(self.burst_interval.unwrap_or_else(of_mean)))
    }
}

impl Default for AckPacer {
    fn default() -> Self {
        AckPacer::new()
    }
}

const SPACING: Percent = match Percent::new(90) {
    Ok(share) => share,
    Err(_) => Percent::ALL,
};

/// Departures that may be made up after a stall. A lump is at most a window, and a few departures cover the
/// lateness of single events; a flow that needs more should be paced by a schedule: a
/// [`RateClock`](super::RateClock).
const MOST_BEHIND: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn pacer(burst_interval: u64) -> AckPacer {
        AckPacer::starting_at(Rate::every(Duration::from_micros(100)).unwrap())
            .with_burst_interval(Duration::from_micros(burst_interval))
    }

    #[test]
    fn an_ordinary_ack_passes_through() {
        let mut pacer = pacer(12);
        for ack in 0..20 {
            assert_eq!(pacer.on_ack(at(200 * ack), 2), Some(at(200 * ack)));
            assert_eq!(pacer.departed(at(200 * ack)), Some(at(200 * ack + 12)));
            assert_eq!(pacer.departed(at(200 * ack + 12)), None);
        }
        assert_eq!((pacer.compressed_acks(), pacer.big_acks(), pacer.waiting()), (0, 0, 0));
    }

    #[test]
    fn a_late_departure_is_made_up_at_the_burst_interval() {
        let mut pacer = pacer(40);
        pacer.on_ack(at(0), 30);
        assert_eq!(pacer.departed(at(0)), Some(at(90)));
        assert_eq!(pacer.departed(at(150)), Some(at(190)));
        assert_eq!(pacer.departed(at(190)), Some(at(270)));
        // Ten places behind: four are made up.
        assert_eq!(pacer.departed(at(1_170)), Some(at(1_210)));
        assert_eq!(pacer.place, at(1_170 - 4 * 90 + 90));
    }

    #[test]
    fn what_waits_can_be_revoked() {
        let mut pacer = pacer(12);
        assert_eq!(pacer.on_ack(at(0), 9), Some(at(0)));
        pacer.departed(at(0));
        assert_eq!(pacer.revoke(), 8);
        assert_eq!(pacer.poll_at(), None);
        assert_eq!(pacer.on_ack(at(5), 0), None);
        assert_eq!(pacer.departed(at(5)), None);
        assert_eq!(pacer.on_ack(at(300), 1), Some(at(300)));
    }

    /// As long as no rate is known, only the burst interval separates packets.
    #[test]
    fn without_a_mean_the_burst_interval_holds() {
        let mut pacer = AckPacer::new().with_burst_interval(Duration::from_micros(12));
        assert_eq!(pacer.on_ack(at(0), 10), Some(at(0)));
        assert_eq!(pacer.departed(at(0)), Some(at(12)));
    }

    #[test]
    fn three_packets_are_ordinary_and_four_are_big() {
        let mut pacer = pacer(12);
        pacer.on_ack(at(0), 3);
        assert_eq!((pacer.big_acks(), pacer.departed(at(0))), (0, Some(at(12))));
        pacer.revoke();
        pacer.on_ack(at(1_000), 4);
        assert_eq!((pacer.big_acks(), pacer.departed(at(1_000))), (1, Some(at(1_090))));
    }

    /// The packet of an ordinary ACK that comes close behind the last one of a lump keeps its distance.
    #[test]
    fn a_lump_ends_one_spacing_after_its_last_packet() {
        let mut pacer = pacer(12);
        pacer.on_ack(at(0), 4);
        let mut now = at(0);
        while let Some(due) = pacer.departed(now) {
            now = due;
        }
        assert_eq!(now, at(270));
        assert_eq!(pacer.on_ack(at(300), 1), Some(at(360)));
        assert_eq!(pacer.departed(at(360)), None);
        assert_eq!(pacer.on_ack(at(460), 2), Some(at(460)));
        assert_eq!(pacer.departed(at(460)), Some(at(472)));
    }

    /// One for each connection.
    #[test]
    fn a_pacer_is_small() {
        let sizes = (size_of::<AckPacer>(), size_of::<AckRate>());
        assert!(sizes.0 <= 168 && sizes.1 <= 72, "{sizes:?}");
    }
}
