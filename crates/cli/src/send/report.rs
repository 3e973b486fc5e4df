//! The findings of `send`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use softtimers::late::{LateCause, LateCounts};

use crate::distribution::Distribution;
use crate::gaps::GapReport;
use crate::output::{Report, Table};
use crate::plan::SendPlan;
use crate::units::show_duration;

use super::Session;
use super::account::Usage;

/// The keys of `send`'s object.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SendReport {
    /// Departures a second asked for, over the whole pattern.
    pub target_pps: f64,
    /// Departures a second from the first one to the last: their number less one over that time, so
    /// that a short run is not counted too high; `null` for fewer than two.
    pub achieved_pps: Option<f64>,
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Places in the schedule given up, because the sender fell behind by more than `--catch-up`.
    pub forfeited: u64,
    /// Departure time less place in the schedule, catching up and trying again included.
    pub late_ns: Distribution,
    /// Gaps between departures and what stuck together, by the sender's clock.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// This thread's CPU time as a share of one processor.
    pub cpu_share: f64,
    /// CPU time of the whole run for each datagram, other work included.
    pub cpu_ns_per_packet: Option<f64>,
    /// Times the thread slept and was woken.
    pub wakeups: u64,
    /// Departures by the trigger state that found them due, whatever the timer; together `sent`. What
    /// a wait found is `readiness` if a source was ready and `backup` if the wait ran out.
    pub fired: BTreeMap<&'static str, u64>,
    /// Departures more than a millisecond late, by cause; `catch_up` are those that left as soon as
    /// they might and owe their delay to an earlier pause or to a socket without room.
    pub late: BTreeMap<&'static str, LateReport>,
    /// What the sockets refused for a while.
    pub socket: SocketReport,
    /// Requests answered or pieces computed, per second; `null` without work.
    pub work_rate: Option<f64>,
}

/// Late departures of one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LateReport {
    /// How many.
    pub count: u64,
    /// The longest pause, or for `catch_up` the greatest lateness.
    pub longest_ns: u64,
}

/// Datagrams that were not taken at once. Those of the flow are tried again and not lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SocketReport {
    /// Attempts that met a full send buffer (`EAGAIN`).
    pub would_block: u64,
    /// Attempts that met a full queue on the way out (`ENOBUFS`).
    pub no_buffers: u64,
    /// Attempts that were told of an earlier datagram's ICMP error: nobody listens there.
    pub refused: u64,
    /// Answers of the echo server that were thrown away because its socket had no room for them.
    pub answers_dropped: u64,
}

impl SendReport {
    pub(super) fn new(plan: &SendPlan, session: &Session, usage: &Usage) -> Self {
        let flow = &session.flow;
        let seconds = usage.wall.as_secs_f64().max(f64::MIN_POSITIVE);
        let gaps = flow.gap_report();
        SendReport {
            target_pps: plan.pace.mean_rate().packets_per_second(),
            achieved_pps: achieved(&gaps),
            sent: flow.sent(),
            forfeited: flow.forfeited(),
            late_ns: flow.lateness().distribution(),
            gaps,
            cpu_share: usage.cpu.as_secs_f64() / seconds,
            cpu_ns_per_packet: (flow.sent() > 0).then(|| usage.cpu.as_nanos() as f64 / flow.sent() as f64),
            wakeups: usage.wakeups,
            fired: flow.fired().iter().map(|(source, &count)| (source.name(), count)).collect(),
            late: flow.late_report().into_iter().collect(),
            socket: SocketReport { answers_dropped: session.work.answers_dropped(), ..flow.trouble() },
            work_rate: session.work.done().map(|done| done as f64 / seconds),
        }
    }
}

/// The gaps add up to the time from the first departure to the last.
fn achieved(gaps: &GapReport) -> Option<f64> {
    gaps.gap_ns.mean.filter(|&mean| mean > 0.0).map(|mean| 1e9 / mean)
}

/// A report of nothing, with every key that `--assert` may name.
impl Default for SendReport {
    fn default() -> Self {
        SendReport {
            target_pps: 0.0,
            achieved_pps: None,
            sent: 0,
            forfeited: 0,
            late_ns: Distribution::default(),
            gaps: GapReport::default(),
            cpu_share: 0.0,
            cpu_ns_per_packet: None,
            wakeups: 0,
            fired: softtimers::TriggerState::ALL.map(|source| (source.name(), 0)).into(),
            late: LateCause::ALL.map(|cause| (cause.name(), LateReport::default())).into(),
            socket: SocketReport::default(),
            work_rate: None,
        }
    }
}

impl From<LateCounts> for LateReport {
    fn from(counts: LateCounts) -> Self {
        let longest_ns = u64::try_from(counts.longest.as_nanos()).unwrap_or(u64::MAX);
        LateReport { count: counts.events, longest_ns }
    }
}

impl Report for SendReport {
    const SCHEMA: &'static str = "softtimers.send/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let achieved = self.achieved_pps.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        table.row("rate", format!("{achieved} of {:.0} packets/s", self.target_pps));
        table.row("sent", self.sent);
        table.row("forfeited", self.forfeited);
        table.distribution("lateness", &self.late_ns);
        table.distribution("gaps", &self.gaps.gap_ns);
        table.share("back to back", self.gaps.back_to_back);
        table.number("longest burst", self.gaps.longest_burst);
        table.share("cpu of one core", Some(self.cpu_share));
        table.row("wake-ups", self.wakeups);
        table.row("found due by", counts(&self.fired));
        for (cause, late) in self.late.iter().filter(|(_, late)| late.count > 0) {
            let longest = show_duration(Duration::from_nanos(late.longest_ns));
            table.row(&format!("late: {cause}"), format!("{} departures, up to {longest}", late.count));
        }
        let SocketReport { would_block, no_buffers, refused, answers_dropped } = self.socket;
        if would_block + no_buffers + refused > 0 {
            table.row(
                "tried again",
                format!("{would_block} full buffer, {no_buffers} full queue, {refused} refused"),
            );
        }
        if answers_dropped > 0 {
            table.row("answers dropped", answers_dropped);
        }
        if let Some(rate) = self.work_rate {
            table.row("work", format!("{rate:.0}/s"));
        }
        table
    }
}

fn counts(fired: &BTreeMap<&'static str, u64>) -> String {
    let shown: Vec<String> = fired
        .iter()
        .filter(|&(_, &count)| count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("  ") }
}
