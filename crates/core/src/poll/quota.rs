//! How many packets a source may have in one turn: [`Quota`].
//!
//! Without one, a source that is never empty keeps the thread: finished transmissions are not reclaimed, output
//! stops, and all that input was for nothing (livelock §6.6: total throughput falls to almost nothing beyond the
//! maximum loss-free rate). With one, what a turn costs is bounded, and receive, transmit and other sources take
//! their turns.
//!
//! A large quota spreads the cost of a turn over more packets; a small one lets the others wait less. The paper
//! found 7 to 8 best and 10 to 20 beginning to livelock; where a turn is a system call of its own, 64.

use super::Preset;

/// The most packets in one turn, in each direction; at least one.
///
/// ```
/// use softtimers_core::poll::{Preset, Quota};
///
/// assert_eq!(Quota::default(), Quota::new(64, 64));
/// assert_eq!(Quota::preset(Preset::Paper), Quota::new(8, 8));
/// assert_eq!(Quota::new(0, 5).receive(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quota {
    receive: u32,
    transmit: u32,
}

impl Quota {
    /// No limit: for comparison, since it livelocks.
    pub const NONE: Quota = Quota { receive: u32::MAX, transmit: u32::MAX };

    /// So many packets received and so many transmissions finished in a turn; zero counts as one.
    pub const fn new(receive: u32, transmit: u32) -> Self {
        Quota { receive: at_least_one(receive), transmit: at_least_one(transmit) }
    }

    /// The paper's best, or what a system call for each turn makes best.
    pub const fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Paper => Quota::new(8, 8),
            Preset::Measured => Quota::new(64, 64),
        }
    }

    /// The most packets received in a turn.
    pub const fn receive(self) -> u32 {
        self.receive
    }

    /// The most transmissions finished in a turn.
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
