//! The one list of idle policies. To add one, add an entry to [`ALL`], and a constructor to
//! [`Idle`](super::Idle) if it needs one.

use core::time::Duration;

/// The way in which a loop waits, and learns from its wake-ups.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Policy {
    pub(super) name: &'static str,
    /// One line for help texts.
    pub(super) about: &'static str,
    /// Polls from the start, if allowed.
    pub(super) spins: bool,
    /// The lead before anything is learnt.
    pub(super) lead: Duration,
    /// A wake-up later than the lead moves it up by this part of the difference, one over this.
    pub(super) up: u32,
    /// A wake-up earlier than the lead moves it down by this part of the difference, one over this.
    pub(super) down: u32,
}

/// Its lead is a low quantile of the lateness.
pub(super) const PARK: Policy = Policy {
    name: "park",
    about: "Sleep until just before the deadline: wake early by the shortest wake-up time",
    spins: false,
    lead: Duration::ZERO,
    up: 16,
    down: 4,
};

/// Its lead is a high quantile of the lateness.
pub(super) const HYBRID: Policy = Policy {
    name: "hybrid",
    about: "Wake early by a high percentile of wake-up time, then busy-poll until the deadline",
    spins: false,
    lead: FIRST_LEAD,
    up: 4,
    down: 64,
};

/// As [`PARK`] while it may not spin.
pub(super) const SPIN: Policy =
    Policy { name: "spin", about: "Poll, within the budget", spins: true, ..PARK };

pub(super) const ALL: [&Policy; 3] = [&PARK, &HYBRID, &SPIN];

/// A typical virtual machine's wake-up; what is learnt replaces it within tens of wake-ups.
const FIRST_LEAD: Duration = Duration::from_micros(20);
