//! [`Quota`]: the most packets that a source may have in one turn.
//!
//! Without one, a source that is never empty keeps the thread: finished transmissions are not reclaimed,
//! output stops, and all that input is wasted (livelock §6.6: total throughput falls to almost nothing beyond
//! the maximum loss-free rate). With one, the cost of a turn is bounded, and receive, transmit and other
//! sources take their turns.
//!
//! A large quota spreads the cost of a turn over more packets; with a small one the other sources wait less.
//! The paper found 7 to 8 best, and the onset of livelock at 10 to 20; where each turn is a system call, 64
//! is best.
//!
//! A turn's packets leave at its end, so with a large quota the first packet of a burst waits for the others, as
//! under interrupts (§4.3). A [ramp](Quota::with_first) avoids that: the first turn of a look is short, and each further
//! turn takes as many packets as the look has found so far. In overload looks do not end, and every turn is a full one.
//!
//! ```text
//!   burst of 16   ▓▓ leave  ▓▓ leave  ▓▓▓▓ leave  ▓▓▓▓▓▓▓▓ leave      first 2
//!                 ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ leave                              quota 64
//! ```

use super::Preset;

/// The most packets in one turn, in each direction; at least one.
///
/// ```
/// use softtimers_poll::{Preset, Quota};
///
/// assert_eq!(Quota::default(), Quota::new(64, 64).with_first(2));
/// assert_eq!(Quota::preset(Preset::Paper), Quota::new(8, 8));
/// assert_eq!(Quota::new(0, 5).receive(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quota {
    first: u32,
    receive: u32,
    transmit: u32,
}

impl Quota {
    /// No limit: for comparison, since it livelocks.
    pub const NONE: Quota = Quota::new(u32::MAX, u32::MAX);

    /// The default's first turn, in packets. With 4, the first packet of a burst of 16 whose packets cost
    /// 10 µs each left later than with a loop that receives all of them first; with 1, a socket is read twice
    /// for every single packet, which on a ring costs nothing.
    pub const FIRST: u32 = 2;

    /// Allows `receive` packets received and `transmit` transmissions finished in a turn; zero counts as one.
    pub const fn new(receive: u32, transmit: u32) -> Self {
        let receive = at_least_one(receive);
        Quota { first: receive, receive, transmit: at_least_one(transmit) }
    }

    /// Limits the first turn of a look to `packets`, and the following ones to the number that the look has
    /// found by then, up to the quota. Zero counts as one.
    ///
    /// ```
    /// use softtimers_poll::Quota;
    ///
    /// let quota = Quota::new(64, 64).with_first(4);
    /// assert_eq!([0, 4, 8, 16, 32, 64, 128].map(|found| quota.receive_after(found)), [4, 4, 8, 16, 32, 64, 64]);
    /// ```
    #[must_use]
    pub const fn with_first(self, packets: u32) -> Self {
        let first = at_least_one(packets);
        Quota { first: if first < self.receive { first } else { self.receive }, ..self }
    }

    /// The paper's best quota, or the best with a system call per turn.
    pub const fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Paper => Quota::new(8, 8),
            Preset::Measured => Quota::new(64, 64).with_first(Quota::FIRST),
        }
    }

    /// Returns the most packets received in a turn.
    pub const fn receive(self) -> u32 {
        self.receive
    }

    /// Returns the most packets received in a turn of a look that has found `found` so far.
    pub const fn receive_after(self, found: u32) -> u32 {
        let ramp = if found < self.first { self.first } else { found };
        if ramp < self.receive { ramp } else { self.receive }
    }

    /// Returns the most transmissions finished in a turn.
    pub const fn transmit(self) -> u32 {
        self.transmit
    }
}

impl Default for Quota {
    fn default() -> Self {
        Quota::preset(Preset::Measured)
    }
}

const fn at_least_one(quota: u32) -> u32 {
    if quota == 0 { 1 } else { quota }
}
