//! Why a frame was dropped: [`Reason`], and how often each: [`Reasons`].

use serde::Serialize;

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

/// Dropped frames, counted by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reasons {
    /// A rule rejected them.
    pub rejected: u64,
    /// They had a truncated or contradictory header, or a wrong checksum.
    pub malformed: u64,
    /// They were longer than the other interface sends.
    pub too_long: u64,
    /// They came back, over a link that joins both interfaces elsewhere.
    pub looped: u64,
    /// Their hop limit was used up.
    pub hop_limit: u64,
    /// They were for another station, a group, a virtual network or the router itself.
    pub not_for_us: u64,
    /// Their source or destination was not a host behind a router, or they carried a source route.
    pub unroutable: u64,
    /// They asked for an address of the router, and were answered.
    pub answered: u64,
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

    /// Returns each with its name, in the order of the report.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        let Reasons { rejected, malformed, too_long, looped, hop_limit, not_for_us, unroutable, answered } =
            *self;
        [
            ("rejected", rejected),
            ("malformed", malformed),
            ("too_long", too_long),
            ("looped", looped),
            ("hop_limit", hop_limit),
            ("not_for_us", not_for_us),
            ("unroutable", unroutable),
            ("answered", answered),
        ]
    }

    pub(crate) fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}
