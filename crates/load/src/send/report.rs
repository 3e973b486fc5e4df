//! The findings of a sender: [`SendReport`], made from its counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use softtimers::late::LateCause;
use softtimers_core::{PerSource, Polling};
use softtimers_measure::distribution::{Distribution, Quantile};
use softtimers_measure::usage::Usage;

use crate::gaps::{Extremes, GapReport, Gaps};
use crate::handshake::Permit;
use crate::plan::{SendPlan, SendVia, Way};
use crate::receipt::Receipt;
use crate::session::{Calls, CatchUps, LateReport, SendStats, Session};
use crate::traffic::nanos;

/// The keys of `send`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SendReport {
    /// Departures a second requested, over the whole pattern, of all flows together.
    pub target_pps: f64,
    /// Departures a second from the first one to the last: their number minus one over that time, so that the rate of a
    /// short run is not overestimated; `null` for fewer than two.
    pub achieved_pps: Option<f64>,
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Scheduled times skipped, because the sender fell behind by more than `--catch-up`.
    pub forfeited: u64,
    /// Departure time minus scheduled time, delays by catching up and retries included.
    pub late_ns: Distribution,
    /// The distribution of lateness, point by point.
    pub late_cdf: Vec<Quantile>,
    /// Gaps between departures of a flow, and bursts, by the sender's clock.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// The longest burst of all flows together: gaps between their departures, judged by half their common interval.
    /// For one flow the same as `longest_burst`.
    pub longest_train: Option<u64>,
    /// The share of its rate's datagrams that each of several flows sent until the last departure of all: 1 for every
    /// flow that keeps an even schedule.
    pub flow_share: Extremes,
    /// The mean number of datagrams that left per turn; `null` if none did.
    pub packets_per_turn: Option<f64>,
    /// Whether a receiver agreed: `agreed`, `none`, or `not_asked` with `--no-handshake`.
    pub agreement: &'static str,
    /// How datagrams reached the kernel, and why so.
    pub send_via: SendVia,
    /// System calls that sent or tried to send datagrams, without goodbyes.
    pub system_calls: u64,
    /// Datagrams sent for each of those; `null` if there was none.
    pub packets_per_call: Option<f64>,
    /// Datagrams that left as segments of a longer send (`UDP_SEGMENT`).
    pub segmented: u64,
    /// CPU time of the loop's thread, and of the pacing thread if there is one, as a share of one CPU.
    pub cpu_share: f64,
    /// The part of it spent polling with nothing to do.
    pub polled: PolledReport,
    /// CPU time of the whole run for each datagram, other work included.
    pub cpu_ns_per_packet: Option<f64>,
    /// Times that these threads slept and were woken.
    pub wakeups: u64,
    /// Times between two checks for due datagrams, waits included: an upper bound for lateness while the loop runs.
    /// `--timer soft` measures them to 3%; timers without checks have none.
    pub trigger_interval_ns: Distribution,
    /// Trigger states passed, by source; none for a disabled one, and 0 unless `--timer soft`.
    pub triggers: BTreeMap<&'static str, u64>,
    /// Handlers of the loop that took longer than a millisecond; `null` unless `--timer soft` with a
    /// loop that waits.
    pub long_handlers: Option<u64>,
    /// The longest of all handlers; `null` where they are not measured.
    pub longest_handler_ns: Option<u64>,
    /// Expiries without a signal of their own; `null` unless `--timer signal` or `tick`.
    pub timer_overruns: Option<u64>,
    /// Departures by the trigger state that found them due, for any timer; their sum is `sent`. A departure found by a
    /// wait is `readiness` if a source was ready, and `backup` if the wait timed out.
    pub fired: BTreeMap<&'static str, u64>,
    /// Departures more than a millisecond late, by cause; `catch_up` are those that left as soon as allowed, after an
    /// earlier pause or a full socket. `--timer signal`, `tick` and `kernel` report only these: the thread's counters
    /// do not show what delayed a signal or the kernel.
    pub late: BTreeMap<&'static str, LateReport>,
    /// How often one flow fell behind, and how it recovered.
    pub catch_up: CatchUps,
    /// The sockets' temporary refusals.
    pub socket: SocketReport,
    /// Requests answered or pieces computed, per second; `null` without work.
    pub work_rate: Option<f64>,
    /// What an agreed receiver says of it; `null` without an agreement, and if it did not tell.
    pub receiver: Option<Receipt>,
}

/// Datagrams not accepted at once. Those of the flow are sent again, and not lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SocketReport {
    /// Attempts that met a full send buffer (`EAGAIN`).
    pub would_block: u64,
    /// Attempts that met a full queue on the way out (`ENOBUFS`).
    pub no_buffers: u64,
    /// Attempts that returned an earlier datagram's ICMP error: the port is closed.
    pub refused: u64,
    /// Answers of the echo server dropped because its socket had no room for them.
    pub answers_dropped: u64,
}

/// The `polled` object.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PolledReport {
    /// Time busy-polled with nothing due, as a share of one CPU; `null` for timers without an idle
    /// policy.
    pub share: Option<f64>,
    /// The share that was allowed; `null` for those timers. A loop that has not polled may poll without a pause at
    /// first, so a run's share can exceed it by that of 10 ms.
    pub budget_share: Option<f64>,
    /// Sleeps that a larger budget would have shortened or replaced by polling.
    pub forced_sleeps: u64,
}

impl PolledReport {
    pub(super) fn new(polled: Option<Polling>, budget_share: Option<f64>, wall: Duration) -> Self {
        let share = |polled: Polling| polled.time.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE);
        PolledReport {
            share: polled.map(share),
            budget_share,
            forced_sleeps: polled.map_or(0, |polled| polled.forced_sleeps),
        }
    }
}

impl SendReport {
    /// Returns a report with every key, to check assertions by before a run.
    pub fn example() -> Self {
        SendReport {
            triggers: no_triggers(),
            fired: no_triggers(),
            late: LateCause::ALL.map(|cause| (cause.name(), LateReport::default())).into(),
            receiver: Some(Receipt::default()),
            ..SendReport::default()
        }
    }

    pub(super) fn new(
        (plan, permit): (&SendPlan, &Permit),
        stats: &SendStats,
        session: &Session,
        usage: &Usage,
    ) -> Self {
        let seconds = usage.wall.as_secs_f64().max(f64::MIN_POSITIVE);
        let SendStats { sent, forfeited, calls, late, gaps, together, .. } = stats;
        let gaps = gaps.report();
        let together = together.as_ref().map_or(gaps, Gaps::report);
        let Calls { calls, segments, would_block, no_buffers, refused } = *calls;
        SendReport {
            target_pps: plan.traffic.target_pps(),
            achieved_pps: achieved(&together),
            sent: *sent,
            forfeited: *forfeited,
            late_ns: late.distribution(),
            late_cdf: late.curve(),
            gaps,
            longest_train: together.longest_burst,
            flow_share: session.flow.shares(),
            packets_per_turn: stats.packets_per_turn(),
            agreement: permit.name(),
            send_via: session.flow.fallback().map_or_else(
                || plan.send_via(),
                |_| SendVia {
                    way: Way::Sendmmsg,
                    why: "the kernel did not cut a quantum: see fallbacks".to_owned(),
                },
            ),
            system_calls: calls,
            packets_per_call: (calls > 0).then(|| *sent as f64 / calls as f64),
            segmented: segments,
            cpu_share: usage.cpu.as_secs_f64() / seconds,
            polled: PolledReport::new(session.polled, plan.config().cpu_budget, usage.wall),
            cpu_ns_per_packet: (*sent > 0).then(|| usage.cpu.as_nanos() as f64 / *sent as f64),
            wakeups: usage.wakeups,
            trigger_interval_ns: session.trigger_intervals,
            triggers: session.triggers.as_ref().map_or_else(no_triggers, |seen| by_name(&seen.passed)),
            long_handlers: session.handlers.map(|stats| stats.long_handlers),
            longest_handler_ns: session.handlers.map(|stats| nanos(stats.longest_handler)),
            timer_overruns: session.flow.overruns(),
            fired: stats.fired(),
            late: stats.late_by_cause(),
            catch_up: stats.catch_ups,
            socket: SocketReport {
                would_block,
                no_buffers,
                refused,
                answers_dropped: session.work.answers_dropped(),
            },
            work_rate: session.work.done().map(|done| done as f64 / seconds),
            receiver: None,
        }
    }
}

/// The rate from the sum of gaps, which is the time from the first departure to the last.
fn achieved(gaps: &GapReport) -> Option<f64> {
    gaps.gap_ns.mean.filter(|&mean| mean > 0.0).map(|mean| 1e9 / mean)
}

fn by_name(counts: &PerSource<u64>) -> BTreeMap<&'static str, u64> {
    counts.iter().map(|(source, &count)| (source.name(), count)).collect()
}

fn no_triggers() -> BTreeMap<&'static str, u64> {
    by_name(&PerSource::default())
}
