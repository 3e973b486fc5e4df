//! [`StartRate`]: the rate at which a train of packets begins.
//!
//! A sender that knows the path's capacity needs no slow start: it paces at that rate from the first packet
//! (soft timers §2.1, A.2). The capacity is hard to know, and the best estimate changes over a connection's
//! life:
//!
//! ```text
//!   rate
//!   capacity  ┤            ┌─────┐                 │           given, or estimated by packet pairs
//!   proved    ┤      ┌─────┘     └──┐  idle  ┌─────┤  idle     what ACKs came for
//!   fraction  ┤ ─────┘              │        │     │     longer than memory   ┌────
//!             └─────────────────────┴────────┴─────┴──────────────────────────┴────▶
//!               first train: a share of it,  a restart at the rate of           all that was proved
//!               for nothing is proved        the last busy period, no burst     is forgotten
//! ```
//!
//! The sender's congestion control decides how to climb from the fraction to the capacity; the paper leaves
//! it open (§5.7), and so does this module.

use core::time::Duration;

use crate::{Percent, Rate, RateError, Timestamp};

/// The rate at which the next train begins: a fraction of the capacity until ACKs have proved a rate, then
/// that rate, after an idle time too.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::StartRate;
/// use softtimers_core::{PaceConfig, Percent, Rate, RateClock, Timestamp};
///
/// let at = Timestamp::from_micros;
/// let capacity = Rate::of_bits(100_000_000, 1_500)?; // one each 120 µs
/// let mut start = StartRate::new(capacity, Percent::HALF)?;
///
/// let mut clock = RateClock::new(PaceConfig::new(start.rate(at(0))))?;
/// clock.start(at(0));
/// assert_eq!(clock.departed(at(0)), at(240));
///
/// // ACKs come one each 150 µs, and stop; five seconds later there is more to send.
/// start.proved(at(90_000), Rate::every(Duration::from_micros(150))?);
/// let mut clock = RateClock::new(PaceConfig::new(start.rate(at(5_000_000))))?;
/// clock.start(at(5_000_000));
/// assert_eq!(clock.departed(at(5_000_000)), at(5_000_150));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Cost
/// 80 bytes; everything is O(1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartRate {
    capacity: Rate,
    initial_fraction: Percent,
    /// The share `initial_fraction` of `capacity`.
    first: Rate,
    memory: Duration,
    proved: Option<(Timestamp, Rate)>,
}

impl StartRate {
    /// Creates a start rate for a path of this capacity, of which the first train uses `initial_fraction`.
    /// The paper's prototype uses all of it ([`Percent::ALL`]), which is right where the capacity is
    /// guaranteed, and says that a practical sender should begin with less (§5.7).
    ///
    /// # Errors
    /// [`RateError`] if the fraction is 0%, or the result is too slow for a rate: see [`Rate::share`].
    pub fn new(capacity: Rate, initial_fraction: Percent) -> Result<Self, RateError> {
        let first = capacity.share(initial_fraction)?;
        Ok(StartRate { capacity, initial_fraction, first, memory: MEMORY, proved: None })
    }

    /// Sets how long after the last ACK a proved rate is used: 5 minutes by default. With zero every train
    /// begins like the first.
    pub fn memory(mut self, memory: Duration) -> Self {
        self.memory = memory;
        self
    }

    /// Sets a better estimate of the capacity. A proved rate stays, but is limited to the capacity.
    ///
    /// # Errors
    /// As for [`new`](Self::new); nothing changes then.
    pub fn set_capacity(&mut self, capacity: Rate) -> Result<(), RateError> {
        self.first = capacity.share(self.initial_fraction)?;
        self.capacity = capacity;
        Ok(())
    }

    /// Notes that the path has carried this rate until now, as measured by ACKs: see
    /// [`AckRate::rate`](super::AckRate::rate).
    pub fn proved(&mut self, now: Timestamp, rate: Rate) {
        self.proved = Some((now, rate));
    }

    /// Forgets the proved rate, because packets were lost or the path has changed.
    pub fn forget(&mut self) {
        self.proved = None;
    }

    /// Returns the rate for a train that begins now.
    pub fn rate(&self, now: Timestamp) -> Rate {
        match self.proved {
            Some((at, rate)) if now.saturating_duration_since(at) < self.memory => rate.slower(self.capacity),
            _ => self.first,
        }
    }

    /// Returns the capacity: no train begins faster.
    pub fn capacity(&self) -> Rate {
        self.capacity
    }
}

/// RFC 7661 §4.3 lets a sender keep an unused window this long: a path's capacity changes within minutes.
const MEMORY: Duration = Duration::from_secs(5 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn start(percent: u32) -> Result<StartRate, RateError> {
        StartRate::new(every(120), Percent::new(percent).unwrap())
    }

    fn every(micros: u64) -> Rate {
        Rate::every(Duration::from_micros(micros)).unwrap()
    }

    #[test]
    fn the_first_train_uses_a_fraction_of_the_capacity() {
        assert_eq!(start(100).unwrap().rate(Timestamp::ZERO), every(120));
        assert_eq!(start(25).unwrap().rate(Timestamp::ZERO), every(480));
        assert_eq!(start(0), Err(RateError::Zero));
    }

    #[test]
    fn after_an_idle_time_a_train_begins_at_the_proved_rate() {
        let mut start = start(50).unwrap();
        start.proved(Timestamp::from_micros(7), every(130));
        assert_eq!(start.rate(Timestamp::from_micros(7)), every(130));
        assert_eq!(start.rate(Timestamp::from_micros(299_000_000)), every(130));
        assert_eq!(start.rate(Timestamp::from_micros(300_000_007)), every(240));
        start.forget();
        assert_eq!(start.rate(Timestamp::from_micros(8)), every(240));
    }

    #[test]
    fn no_train_begins_faster_than_the_capacity() {
        let mut start = start(50).unwrap();
        start.proved(Timestamp::ZERO, every(100));
        assert_eq!(start.rate(Timestamp::ZERO), every(120));
        start.set_capacity(every(90)).unwrap();
        assert_eq!((start.rate(Timestamp::ZERO), start.capacity()), (every(100), every(90)));
        start.forget();
        assert_eq!(start.rate(Timestamp::ZERO), every(180));
    }
}
