//! The result of a trial: [`Point`].

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_poll::FeedbackStats;

use super::stats::Stats;
use crate::stats::DropCounts;

/// The result of one trial.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Point {
    /// The rate that was asked for, in capacities; `null` without a search.
    pub multiple: Option<f64>,
    /// The rate that was asked for, in packets a second.
    pub target_pps: f64,
    /// The rate that was sent, in packets a second.
    pub offered_pps: f64,
    /// Datagrams back to back.
    pub burst: u32,
    /// The time for which was sent, in seconds.
    pub trial_s: f64,
    /// Datagrams sent, three goodbyes included: they are `received` and `dropped.ring`.
    pub sent: u64,
    /// Datagrams taken from the socket: they are `delivered` and the others of `dropped`.
    pub received: u64,
    /// Datagrams that left, also after the end.
    pub delivered: u64,
    /// Datagrams that left a second, within the length of the trial from the first on.
    pub delivered_pps: f64,
    /// Those of `delivered` that left only after that: they had waited in a buffer.
    pub late: u64,
    /// Whether the receiver keeps up with such a rate: all that was sent was delivered, and next to nothing of it late.
    pub loss_free: bool,
    /// Those that did not, by where.
    pub dropped: DropCounts,
    /// From the kernel's receive time to having been sent on.
    pub latency_ns: Distribution,
    /// The share of its times that a timer of 20 ms fired; `null` if the trial is shorter.
    pub timer_share: Option<f64>,
    /// The share of a CPU that the receiver used, all of its stages.
    pub cpu_share: f64,
    /// The share that the computation beside it had; `null` if there was none.
    pub beside_share: Option<f64>,
    /// Waits of the first stage that could sleep.
    pub wakeups: u64,
    /// Those for each datagram received.
    pub wakeups_per_packet: Option<f64>,
    /// Looks at the socket until it was empty; of `naive` none are counted.
    pub polls: u64,
    /// Those that found nothing.
    pub empty_polls: u64,
    /// Changes between polls and wake-ups.
    pub mode_switches: u64,
    /// Times that --cpu-limit shut the input.
    pub cpu_limited: u64,
    /// The effect of the queue between the stages on the input; `null` without feedback.
    pub feedback: Option<FeedbackCounts>,
    /// Livelock: input without progress.
    pub livelock: Livelock,
}

/// Counts of how often the queue shut the input, and what opened it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FeedbackCounts {
    /// Times that it was three quarters full.
    pub shut: u64,
    /// Times that no more than a quarter was left.
    pub resumed: u64,
    /// Times that the second stage got nowhere near that in time. What comes in then, a quota each time, may find no
    /// room.
    pub timed_out: u64,
}

impl From<FeedbackStats> for FeedbackCounts {
    fn from(stats: FeedbackStats) -> Self {
        let FeedbackStats { shut, resumed, timed_out, .. } = stats;
        FeedbackCounts { shut, resumed, timed_out }
    }
}

/// The findings of the livelock detector.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Livelock {
    /// Times that there was input and no progress for 10 ms.
    pub episodes: u64,
    /// The share of the trial in such a state.
    pub stalled_share: Option<f64>,
}

impl Point {
    /// Makes a point from the receiver's counts in a trial of this length.
    pub(super) fn of(stats: &Stats, length: Duration) -> Self {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        Point {
            trial_s: length.as_secs_f64(),
            received: stats.received,
            dropped: stats.dropped,
            latency_ns: stats.latency.distribution(),
            timer_share: stats.timer_share,
            cpu_share: stats.cpu.as_secs_f64() / length.as_secs_f64(),
            wakeups: stats.wakeups,
            wakeups_per_packet: share(stats.wakeups, stats.received),
            polls: stats.polls,
            empty_polls: stats.empty_polls,
            mode_switches: stats.mode_switches,
            cpu_limited: stats.cpu_limited,
            feedback: stats.feedback.map(FeedbackCounts::from),
            livelock: Livelock { episodes: stats.episodes, stalled_share: share(stats.stalled, stats.looks) },
            ..Point::default()
        }
    }

    /// Returns the offered and the delivered rate in packets a second: the plot, the curve and the verdict are made
    /// from these.
    ///
    /// Where nothing was lost what was offered was delivered: that the last of it left when time was up is of the trial,
    /// which has an end. Else it is what left within the trial.
    pub fn rates(&self) -> [f64; 2] {
        let delivered = if self.loss_free { self.offered_pps } else { self.delivered_pps };
        [self.offered_pps, delivered]
    }
}
