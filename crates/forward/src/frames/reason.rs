//! Why a frame was not forwarded: [`Reason`], and how often each: [`Reasons`].

use serde::Serialize;

/// Why a frame went no further.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reason {
    /// A rule rejected it.
    Rule,
    /// It is none, or a packet in it is none: a header is cut short, contradicts itself, or has a wrong checksum.
    Malformed,
    /// It is longer than the other interface sends.
    TooLong,
    /// It came back, by a way that joins both interfaces elsewhere.
    Loop,
    /// A router dropped it: it has passed as many routers as it may.
    HopLimit,
    /// A router dropped it: it is for another station, for a group, in a virtual network, or for the router itself.
    NotForUs,
    /// A router dropped it: it comes from or goes to nobody that is behind a router, or wants to choose its own way.
    Unroutable,
    /// A router took it: it asked for an address, and was answered.
    Answered,
}

/// Frames that went no further, counted by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reasons {
    /// A rule rejected them.
    pub rejected: u64,
    /// A header was cut short, contradicted itself, or had a wrong checksum.
    pub malformed: u64,
    /// They were longer than the other interface sends.
    pub too_long: u64,
    /// They came back, by a way that joins both interfaces elsewhere.
    pub looped: u64,
    /// They had passed as many routers as they may.
    pub hop_limit: u64,
    /// They were for another station, a group, a virtual network or the router itself.
    pub not_for_us: u64,
    /// They came from or went to nobody that is behind a router, or wanted to choose their own way.
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
