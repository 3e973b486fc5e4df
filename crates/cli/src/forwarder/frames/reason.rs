//! Why a frame was dropped: [`Reason`], and how often each: [`Reasons`].

use crate::forwarder::stats::counters::counters;

/// Why a frame was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reason {
    /// A rule rejected it.
    Rule,
    /// It is not a valid frame, or contains an invalid packet: a truncated or contradictory header, or a wrong
    /// checksum.
    Malformed,
    /// It is longer than the other interface sends.
    TooLong,
    /// It came back, over a link that joins both interfaces elsewhere.
    Loop,
    /// A router dropped it: its hop limit is used up.
    HopLimit,
    /// A router dropped it: it is for another station, for a group, in a virtual network, or for the router itself.
    NotForUs,
    /// A router dropped it: its source or destination is not a host behind a router, or it carries a source route.
    Unroutable,
    /// A router took it: it asked for an address, and was answered.
    Answered,
}

counters! {
    /// Dropped frames, counted by reason.
    pub(crate) struct Reasons {
        /// A rule rejected them.
        rejected,
        /// They had a truncated or contradictory header, or a wrong checksum.
        malformed,
        /// They were longer than the other interface sends.
        too_long,
        /// They came back, over a link that joins both interfaces elsewhere.
        looped,
        /// Their hop limit was used up.
        hop_limit,
        /// They were for another station, a group, a virtual network or the router itself.
        not_for_us,
        /// Their source or destination was not a host behind a router, or they carried a source route.
        unroutable,
        /// They asked for an address of the router, and were answered.
        answered,
    }
}

impl Reasons {
    pub(crate) fn count(&mut self, reason: Reason) {
        self.add(reason, 1);
    }

    pub(crate) fn add(&mut self, reason: Reason, frames: u64) {
        *match reason {
            Reason::Rule => &mut self.rejected,
            Reason::Malformed => &mut self.malformed,
            Reason::TooLong => &mut self.too_long,
            Reason::Loop => &mut self.looped,
            Reason::HopLimit => &mut self.hop_limit,
            Reason::NotForUs => &mut self.not_for_us,
            Reason::Unroutable => &mut self.unroutable,
            Reason::Answered => &mut self.answered,
        } += frames;
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn total(&self) -> u64 {
        self.each().map(|(_, _, count)| count).sum()
    }
}
