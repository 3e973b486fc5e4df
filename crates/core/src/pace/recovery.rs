//! [`Recovery`]: makes a catch-up end where trigger states are rare.
//!
//! A late flow leaves a burst interval after its last packet **or at the first trigger state after that**. Where the two
//! together take as long as the target interval, one packet at a time never makes up for a stall: the flow
//! stays late for good, at the bound of [`CatchUp`](super::CatchUp). So a catch-up has a deadline, and a line
//! that leads to it. A flow that lags behind its line, and that would miss the deadline with one packet at a
//! time, sends a second packet at the same trigger state, or a third:
//!
//! ```text
//!   late by │●                 ● a trigger state
//!           │  ╲●              above the line: two leave, or three
//!           │    ╲             below it: one
//!           │   ●  ╲
//!           │      ● ╲
//!           └──────────╲────── time
//!           stall      end: eight times the stall later
//! ```
//!
//! The speed of one packet at a time is estimated from the usual gap of a late flow, a mean of the last
//! sixteen or so. While that is at most eight ninths of the target interval, an occasional longer gap counts
//! as a new stall: it moves the deadline, and causes no train. In a slower loop only a gap that is longer than a whole train's
//! time counts, and only if the last such gap should be made up by then: gaps that keep coming would move the deadline
//! forever, and the flow would never have a train (at 130, 1 and 30 µs in turn it had half of its rate at 40 µs).

use crate::Timestamp;

/// Trains of a few packets that end a catch-up in time, where a burst interval and the wait for a trigger
/// state are too long for single packets. [`Recovery::NONE`] keeps every gap at least at the burst interval.
///
/// A catch-up should end within [`WITHIN`](Recovery::WITHIN) times the delay of the stalls, plus some 40
/// intervals in which the usual gap is learnt. It does if the flow gets a trigger state at least every
/// `train * WITHIN / (WITHIN + 1)` target intervals, less a burst interval. A stall during the catch-up has
/// a deadline of its own. Where trigger states are rarer, whole trains leave, and scheduled times too far
/// back are skipped as without trains.
///
/// However late the flow is, at most `train` packets follow each other at less than the burst interval.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Recovery {
    /// The most packets that leave together: 1 for no trains.
    pub train: u16,
}

impl Recovery {
    /// No trains: every gap of a late flow is at least a burst interval.
    pub const NONE: Recovery = Recovery { train: 1 };

    /// A catch-up should end within 8 times the delay that it makes up.
    pub const WITHIN: u32 = 8;

    /// Allows trains of up to `most` packets; 0 is taken as 1.
    pub const fn trains(most: u16) -> Self {
        Recovery { train: if most == 0 { 1 } else { most } }
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Recovery::NONE
    }
}

/// The catch-up in progress, if there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spell {
    recovery: Recovery,
    /// Packets of the train that left last.
    in_train: u16,
    /// The low half of the flow's number of departures at its latest late one; if the next late departure
    /// does not follow it, a new catch-up begins.
    departures: u32,
    /// When it is to be over.
    ends: Timestamp,
    /// When the latest stall during it should be made up: one before that in a slow loop is what that loop does.
    excused: Timestamp,
    /// The mean of the last gaps while late, in nanoseconds; 0 before the first. Gaps inside trains are not
    /// counted.
    usual: u64,
}

/// A departure of a flow that is behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub(super) now: Timestamp,
    /// Since the departure before, in nanoseconds.
    pub(super) gap: u64,
    /// How late the next packet is already, in nanoseconds.
    pub(super) by: u64,
    /// The target interval.
    pub(super) interval: u64,
    /// The shortest gap after it.
    pub(super) shortest: u64,
    /// The number of packets of this departure, and of all until now.
    pub(super) packets: u32,
    pub(super) departures: u32,
    /// Whether it is the first since the flow began or was idle.
    pub(super) first: bool,
}

impl Spell {
    pub(super) const fn new(recovery: Recovery) -> Self {
        Spell {
            recovery,
            in_train: 0,
            departures: 0,
            ends: Timestamp::ZERO,
            excused: Timestamp::ZERO,
            usual: 0,
        }
    }

    pub(super) const fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Counts a departure after which the next packets are late already. Returns whether those may leave at
    /// once.
    pub(super) fn departed(&mut self, behind: Behind) -> bool {
        let Behind { now, gap, by, interval, shortest, packets, departures, first } = behind;
        let Recovery { train } = self.recovery;
        if train <= 1 {
            return false;
        }
        let goes_on = !first && self.departures.wrapping_add(packets) == departures;
        self.departures = departures;
        let mut usual = self.usual.max(shortest);
        if goes_on && gap >= shortest {
            // One stall must not look like a slow loop.
            usual = (usual - usual / MEMORY).saturating_add(gap.min(interval.saturating_mul(2)) / MEMORY);
        }
        self.usual = usual;
        let within = u64::from(Recovery::WITHIN);
        // The deadline of a catch-up that began now.
        let latest = now.after(by.max(interval).saturating_mul(within));
        // At this gap, one at a time ends any catch-up within its time.
        let is_quick = usual <= interval / (within + 1) * within;
        if !goes_on {
            (self.ends, self.excused) = (latest, now);
        } else if is_quick && gap > interval
            || now >= self.excused && gap > interval.saturating_mul(u64::from(train))
        {
            // Another stall, which the deadline did not allow for.
            let takes = gap.saturating_mul(within + 1);
            self.ends = self.ends.max(self.ends.after(takes).min(latest));
            self.excused = now.after(takes);
        }
        let packets = u16::try_from(packets).unwrap_or(u16::MAX);
        self.in_train =
            if goes_on && gap < shortest { self.in_train.saturating_add(packets) } else { packets };
        let left = self.ends.nanos_since(now);
        let gain = interval.saturating_sub(usual);
        let alone = u128::from(by) * u128::from(usual) <= u128::from(left) * u128::from(gain);
        !alone && by > left / within && self.in_train.saturating_add(packets) <= train
    }
}

/// The number of gaps in the mean, approximately.
const MEMORY: u64 = 16;
