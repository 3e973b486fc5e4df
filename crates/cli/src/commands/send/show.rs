//! The findings of `send`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use softtimers::PerSource;
use softtimers::late::{LateCause, LateCounts};

use crate::distribution::{Distribution, Quantile};
use crate::gaps::GapReport;
use crate::output::{Report, Table};
use crate::plan::SendPlan;
use crate::units::show_duration;

use super::Session;
use super::flows::{Flows, ShareReport};
use super::polled::PolledReport;
use crate::usage::Usage;

/// The keys of `send`'s object.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SendReport {
    /// Departures a second asked for, over the whole pattern, of all flows together.
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
    /// How that is distributed, point by point.
    pub late_cdf: Vec<Quantile>,
    /// Gaps between departures of a flow and what stuck together, by the sender's clock.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// The longest burst of all flows together: gaps between their departures, judged by half the interval
    /// that they have together. Of one flow the same as `longest_burst`.
    pub longest_train: Option<u64>,
    /// Of each of several flows, what it sent as a share of what its rate asks for until the last departure
    /// of all: 1 for every flow that keeps an even schedule.
    pub flow_share: ShareReport,
    /// The mean number of datagrams that left when something was found due; `null` if none did.
    pub packets_per_turn: Option<f64>,
    /// System calls that sent datagrams or tried to; goodbyes do not count.
    pub system_calls: u64,
    /// Datagrams sent for each of those; `null` if there was none.
    pub packets_per_call: Option<f64>,
    /// Datagrams that left as segments of a longer send, which the kernel cut (`UDP_SEGMENT`).
    pub segmented: u64,
    /// CPU time of the loop's thread, and of the pacing thread if there is one, as a share of one
    /// processor.
    pub cpu_share: f64,
    /// What of that went into polling with nothing to do.
    pub polled: PolledReport,
    /// CPU time of the whole run for each datagram, other work included.
    pub cpu_ns_per_packet: Option<f64>,
    /// Times these threads slept and were woken.
    pub wakeups: u64,
    /// Times between two looks for due datagrams, waits included: no datagram can be late by more while
    /// the loop runs. `--timer soft` keeps them to 3%; of timers that need no look there are none.
    pub trigger_interval_ns: Distribution,
    /// Trigger states passed, by source; none of one that is disabled, and 0 unless `--timer soft`.
    pub triggers: BTreeMap<&'static str, u64>,
    /// Handlers of the loop that took longer than a millisecond; `null` unless `--timer soft` with a
    /// loop that waits.
    pub long_handlers: Option<u64>,
    /// The longest of all handlers; `null` where they are not counted.
    pub longest_handler_ns: Option<u64>,
    /// Expiries for which no signal of their own came; `null` unless `--timer signal` or `tick`.
    pub timer_overruns: Option<u64>,
    /// Departures by the trigger state that found them due, whatever the timer; together `sent`. What
    /// a wait found is `readiness` if a source was ready and `backup` if the wait ran out.
    pub fired: BTreeMap<&'static str, u64>,
    /// Departures more than a millisecond late, by cause; `catch_up` are those that left as soon as
    /// they might and owe their delay to an earlier pause or to a socket without room. `--timer signal`, `tick` and
    /// `kernel` tell only these: what held a signal or the kernel up shows in no account of the thread.
    pub late: BTreeMap<&'static str, LateReport>,
    /// What the sockets refused for a while.
    pub socket: SocketReport,
    /// Requests answered or pieces computed, per second; `null` without work.
    pub work_rate: Option<f64>,
}

/// Late departures of one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
        let tally = flow.tally();
        let gaps = tally.gap_report();
        let together = flow.flows().map_or(gaps, Flows::gap_report);
        let handed_over = flow.handed_over();
        SendReport {
            target_pps: plan.target_pps(),
            achieved_pps: achieved(&together),
            sent: flow.sent(),
            forfeited: flow.forfeited(),
            late_ns: tally.lateness().distribution(),
            late_cdf: tally.lateness().curve(),
            gaps,
            longest_train: together.longest_burst,
            flow_share: flow.flows().map(Flows::shares).unwrap_or_default(),
            packets_per_turn: tally.packets_per_turn(),
            system_calls: handed_over.calls,
            packets_per_call: (handed_over.calls > 0).then(|| flow.sent() as f64 / handed_over.calls as f64),
            segmented: handed_over.segments,
            cpu_share: usage.cpu.as_secs_f64() / seconds,
            polled: PolledReport::new(session.polled, plan.config().cpu_budget, usage.wall),
            cpu_ns_per_packet: (flow.sent() > 0).then(|| usage.cpu.as_nanos() as f64 / flow.sent() as f64),
            wakeups: usage.wakeups,
            trigger_interval_ns: session.trigger_intervals,
            triggers: session.triggers.as_ref().map_or_else(no_triggers, |seen| by_name(&seen.passed)),
            long_handlers: session.handlers.map(|stats| stats.long_handlers),
            longest_handler_ns: session.handlers.map(|stats| nanos(stats.longest_handler)),
            timer_overruns: flow.overruns(),
            fired: by_name(tally.fired()),
            late: tally.late_report().into_iter().collect(),
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
            late_cdf: vec![],
            gaps: GapReport::default(),
            longest_train: None,
            flow_share: ShareReport::default(),
            packets_per_turn: None,
            system_calls: 0,
            packets_per_call: None,
            segmented: 0,
            cpu_share: 0.0,
            polled: PolledReport::default(),
            cpu_ns_per_packet: None,
            wakeups: 0,
            trigger_interval_ns: Distribution::default(),
            triggers: no_triggers(),
            long_handlers: None,
            longest_handler_ns: None,
            timer_overruns: None,
            fired: no_triggers(),
            late: LateCause::ALL.map(|cause| (cause.name(), LateReport::default())).into(),
            socket: SocketReport::default(),
            work_rate: None,
        }
    }
}

fn by_name(counts: &PerSource<u64>) -> BTreeMap<&'static str, u64> {
    counts.iter().map(|(source, &count)| (source.name(), count)).collect()
}

fn no_triggers() -> BTreeMap<&'static str, u64> {
    by_name(&PerSource::default())
}

impl From<LateCounts> for LateReport {
    fn from(counts: LateCounts) -> Self {
        LateReport { count: counts.events, longest_ns: nanos(counts.longest) }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
        if let (Some(min), Some(max)) = (self.flow_share.min, self.flow_share.max) {
            table.row("flows", format!("each sent {:.2}% to {:.2}% of its share", min * 100.0, max * 100.0));
            table.number("longest train", self.longest_train);
            let mean = self.packets_per_turn.map_or("-".to_owned(), |mean| format!("{mean:.2} packets"));
            table.row("left in a turn", mean);
        }
        self.handed_over(&mut table);
        table.share("cpu of one core", Some(self.cpu_share));
        self.polled.row(&mut table);
        table.row("wake-ups", self.wakeups);
        table.row("found due by", counts(&self.fired));
        if self.trigger_interval_ns.count > 0 {
            table.distribution("looked for due", &self.trigger_interval_ns);
        }
        if self.triggers.values().any(|&count| count > 0) {
            table.row("trigger states", counts(&self.triggers));
        }
        if let Some((count, longest)) = self.long_handlers.zip(self.longest_handler_ns) {
            let longest = show_duration(Duration::from_nanos(longest));
            table.row("long handlers", format!("{count} over 1ms; the longest took {longest}"));
        }
        if let Some(overruns) = self.timer_overruns.filter(|&overruns| overruns > 0) {
            table.row("timer overruns", overruns);
        }
        for cause in LateCause::ALL {
            let Some(late) = self.late.get(cause.name()).filter(|late| late.count > 0) else { continue };
            let longest = show_duration(Duration::from_nanos(late.longest_ns));
            let why = explained(cause);
            table.row(
                &format!("late: {}", cause.name()),
                format!("{} departures, up to {longest}: {why}", late.count),
            );
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

impl SendReport {
    /// Only where a system call took more than one datagram.
    fn handed_over(&self, table: &mut Table) {
        let Some(per_call) = self.packets_per_call.filter(|_| self.sent > self.system_calls) else { return };
        let cut = match self.segmented {
            0 => String::new(),
            segments => format!("; {segments} by UDP_SEGMENT"),
        };
        table.row("handed over", format!("{per_call:.2} packets per system call{cut}"));
    }
}

/// What a cause means, in a few words for people.
fn explained(cause: LateCause) -> &'static str {
    match cause {
        LateCause::Handler => "the loop was busy with something else",
        LateCause::Wakeup => "it slept and woke late",
        LateCause::Scheduler => "another program had the core",
        LateCause::Steal => "the host had the core",
        LateCause::Stopped => "stopped, or off its core unaccounted",
        LateCause::CatchUp => "behind others that were late",
        _ => "",
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
