//! The result of a trial: [`Point`].

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::Distribution;
use softtimers_measure::sums;
use softtimers_poll::FeedbackStats;

use super::stats::Stats;

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
    /// Datagrams sent, three end messages included: they are `received` and `dropped.ring`.
    pub sent: u64,
    /// Datagrams taken from the socket: the `delivered` ones and the other drops.
    pub received: u64,
    /// Datagrams sent on, also after the end.
    pub delivered: u64,
    /// Datagrams sent on per second, within the trial's length from the first one on.
    pub delivered_pps: f64,
    /// Those of `delivered` sent on after that: they had waited in a buffer.
    pub late: u64,
    /// Whether the receiver keeps up with this rate: every datagram sent was delivered, and almost none of them late.
    pub loss_free: bool,
    /// Datagrams not delivered, by place.
    pub dropped: DropCounts,
    /// From the kernel's receive time until sent on.
    pub latency_ns: Distribution,
    /// The share of its periods in which a timer of 20 ms fired; `null` if the trial is shorter.
    pub timer_share: Option<f64>,
    /// The share of a CPU that the receiver used, all of its stages.
    pub cpu_share: f64,
    /// The CPU share of the computation beside it; `null` if there was none.
    pub beside_share: Option<f64>,
    /// Waits of the first stage that could sleep.
    pub wakeups: u64,
    /// Those for each datagram received.
    pub wakeups_per_packet: Option<f64>,
    /// Polls of the socket, each until it was empty; not counted for `naive`.
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

/// Dropped packets by place, from the cheapest to the most expensive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropCounts {
    /// In full rings or receive buffers.
    pub ring: u64,
    /// By a rule of the file, or by the forwarder's own rules.
    pub rule: u64,
    /// Between two stages; always zero in a forwarder, which has one.
    pub queue: u64,
    /// At outputs that were full, or refused them.
    pub output: u64,
}

/// How often the queue shut the input, and what opened it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FeedbackCounts {
    /// Times that the queue was three quarters full and shut the input.
    pub shut: u64,
    /// Times that it was down to a quarter and opened the input.
    pub resumed: u64,
    /// Times that the second stage did not get there in time. Datagrams then received, one quota each time, may find no
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

sums!(DropCounts: ring, rule, queue, output);

impl Point {
    /// Makes a point from the receiver's counts in a trial of this length.
    pub(super) fn from_stats(stats: &Stats, length: Duration) -> Self {
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

    /// Returns the offered and the delivered rate in packets a second, from which the plot, the curve and the verdict
    /// are made.
    ///
    /// Without loss, the delivered rate is the offered one: some datagrams leave after the end only because a trial has
    /// an end. With loss, it counts datagrams that left within the trial.
    pub fn rates(&self) -> [f64; 2] {
        let delivered = if self.loss_free { self.offered_pps } else { self.delivered_pps };
        [self.offered_pps, delivered]
    }
}
