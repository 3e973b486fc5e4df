//! Plain counters, returned by value.

use crate::PerSource;

/// Counters of a [`SoftTimers`](crate::SoftTimers). Subtract two to see an interval.
///
/// At any time `scheduled == fired.total() + cancelled + pending`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of events scheduled.
    pub scheduled: u64,
    /// Events handed out, by the trigger state that found them due.
    pub fired: PerSource<u64>,
    /// Number of events returned by `cancel`.
    pub cancelled: u64,
    /// Re-arms, including those that left the event where it was.
    pub rearmed: u64,
    /// Re-arms that left the event where it was, because its place was still within the new slack.
    pub rearmed_in_place: u64,
    /// Trigger states reached, by source.
    pub triggers: PerSource<u64>,
    /// Number of events waiting now.
    pub pending: u64,
}
