//! The counts of a trial: [`Stats`]. Each thread keeps its own, and the trial's are their sum.

use std::ops::AddAssign;
use std::time::Duration;

use softtimers_measure::distribution::Recorder;
use softtimers_measure::sums;
use softtimers_poll::FeedbackStats;

use super::point::DropCounts;

/// The counts of a stage, the watcher or the computation beside, or of all of them together.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// Datagrams taken from the socket.
    pub(super) received: u64,
    /// Datagrams dropped, by place.
    pub(super) dropped: DropCounts,
    /// From the kernel's receive time until sent on, for datagrams that left within the window.
    pub(super) latency: Recorder,
    /// CPU time of the receiver's stages within the window.
    pub(super) cpu: Duration,
    /// CPU time of the computation beside.
    pub(super) beside: Duration,
    pub(super) wakeups: u64,
    pub(super) polls: u64,
    pub(super) empty_polls: u64,
    pub(super) mode_switches: u64,
    /// Times that the CPU limit shut the input.
    pub(super) cpu_limited: u64,
    /// The effect of the queue on the input; `None` without feedback.
    pub(super) feedback: Option<FeedbackStats>,
    /// The share of its periods in which the 20 ms timer fired.
    pub(super) timer_share: Option<f64>,
    /// Checks by the watcher within the window, and those that saw input without progress.
    pub(super) looks: u64,
    pub(super) stalled: u64,
    /// Times that there was input without progress.
    pub(super) episodes: u64,
}

impl AddAssign<&Stats> for Stats {
    fn add_assign(&mut self, other: &Stats) {
        sums!(self += other: received, dropped, latency, wakeups, polls, empty_polls, mode_switches, cpu_limited, looks,
            stalled, episodes);
        self.cpu += other.cpu;
        self.beside += other.beside;
        // Only one stage has the queue and the timer.
        self.feedback = self.feedback.or(other.feedback);
        self.timer_share = self.timer_share.or(other.timer_share);
    }
}
