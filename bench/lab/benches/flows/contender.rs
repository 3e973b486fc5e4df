//! One run of one contender: its sending, and the receiver's findings.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use softtimers::{Clock, Monotonic};
use softtimers_lab::figures::{self, Figure};
use softtimers_measure::processor::Processor;
use softtimers_trials::command::{Killed, Program, announced};
use softtimers_trials::paired::Round;

use crate::lanes::Lanes;
use crate::{Load, governed, heap_slack, iperf, library, paced_tokio, task_each, timerfd_each};

/// How a contender sends.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// The command with this engine, and what follows it.
    Command(&'static str),
    /// A thread of this bench.
    Here(fn(&Load, Lanes) -> Result<Lanes>),
    /// `iperf3`, with a receiver of its own.
    Iperf,
}

pub(crate) const ALL: [(&str, How); 13] = [
    ("soft", How::Command("soft")),
    (SLOTS, How::Command(SLOTS)),
    ("heap", How::Command("loop")),
    (LIBRARY, How::Here(library::run)),
    (LIBRARY_SLOTS, How::Here(library::slots)),
    (HEAP_SLACK, How::Here(heap_slack::run)),
    ("timerfd each", How::Here(timerfd_each::run)),
    ("tokio task each", How::Here(task_each::run)),
    ("Pacer each", How::Here(paced_tokio::pacers)),
    ("PacedSender, awaited", How::Here(paced_tokio::awaited)),
    ("PacedSender, queued", How::Here(paced_tokio::queued)),
    ("governor each", How::Here(governed::run)),
    ("iperf3 -P", How::Iperf),
];
pub(crate) const SLOTS: &str = "soft --train 16";
pub(crate) const LIBRARY: &str = "library";
pub(crate) const LIBRARY_SLOTS: &str = "library, slots of 16";
pub(crate) const HEAP_SLACK: &str = "heap, 20 us slack";

/// The figures to compare, with their decimals; figures that a contender does not report are missing.
///
/// | figure | of | |
/// |---|---|---|
/// | slowest, fastest flow | receiver | its rate, in percent of the requested one |
/// | gap deviation | receiver | of a gap from its flow's interval, by the kernel's stamps: in the middle of all gaps, and at 99% |
/// | standard deviation | receiver | of the gaps of the flow in the middle: one stall of a millisecond decides it |
/// | longest train | receiver | datagrams of all flows in a row, closer than half of their common interval |
/// | back to back | receiver | the share of gaps within a flow that are shorter than half its interval |
/// | lost | receiver | datagrams |
/// | left in a turn | sender | datagrams that left at once |
/// | CPU | sender | of its thread |
/// | skipped | sender | scheduled times skipped, 10 ms behind |
/// | lost the CPU | sender | departures a millisecond late for want of one: the host's, other programs', a late wake-up's |
pub(crate) const FIGURES: [Figure; 13] = [
    ("slowest flow %", 2, "", 0.0),
    ("fastest flow %", 2, "", 0.0),
    (DEVIATION, 1, "received.gap_deviation_ns.p50", 1e-3),
    (DEVIATION_P99, 1, "received.gap_deviation_ns.p99", 1e-3),
    ("standard deviation, median flow µs", 1, "received.over_flows.gap_stddev_ns.p50", 1e-3),
    ("longest train", 0, "received.over_flows.longest_train", 1.0),
    ("back to back %", 2, "received.back_to_back", 100.0),
    ("left in a turn", 2, "sent.packets_per_turn", 1.0),
    ("CPU %", 2, "sent.cpu_share", 100.0),
    (COST, 2, "sent.cpu_ns_per_packet", 1e-3),
    ("lost", 0, "received.lost", 1.0),
    ("skipped", 0, "sent.forfeited", 1.0),
    ("lost the CPU", 0, "", 0.0),
];
pub(crate) const DEVIATION: &str = "gap deviation, median µs";
pub(crate) const DEVIATION_P99: &str = "gap deviation, p99 µs";
pub(crate) const COST: &str = "CPU µs/packet";

impl How {
    /// Says whether it can send this load here.
    pub(crate) fn can(self, load: &Load) -> bool {
        match self {
            How::Here(_) => true,
            How::Iperf => iperf::can(load),
            How::Command(_) => load.common_rate().is_some(),
        }
    }

    /// Sends the load on the first of the CPUs to a receiver on the second, and records the result.
    pub(crate) fn run(
        self,
        load: &Load,
        processors: Option<[usize; 2]>,
        (round, name): (&mut Round, &str),
    ) -> Result<()> {
        let found = self.found(load, processors)?;
        figures::put(round, name, &found, &FIGURES);
        if let Some([slowest, fastest]) = extremes(load, &found["received"]) {
            round.put(name, "slowest flow %", 100.0 * slowest);
            round.put(name, "fastest flow %", 100.0 * fastest);
        }
        let lost = ["wakeup", "scheduler", "steal", "stopped"];
        let lost = lost.map(|cause| found["sent"]["late"][cause]["count"].as_f64());
        let told = lost.iter().any(Option::is_some);
        round.put(name, "lost the CPU", told.then(|| lost.into_iter().flatten().sum()));
        Ok(())
    }

    /// Sends, and returns the findings of both ends.
    fn found(self, load: &Load, processors: Option<[usize; 2]>) -> Result<Value> {
        match self {
            How::Iperf => iperf::run(load, processors),
            How::Command(timer) => {
                let (receiver, to) = receiver(load, processors)?;
                let sent = Program::build()?.object(&send(load, timer, &to, processors)?)?;
                Ok(json!({ "sent": sent, "received": receiver.object()? }))
            }
            How::Here(run) => {
                let (receiver, to) = receiver(load, processors)?;
                let sent = here(load, to.parse()?, processors, run)?;
                Ok(json!({ "sent": sent, "received": receiver.ended()? }))
            }
        }
    }
}

/// Starts `recv` on the second of the CPUs, and returns it with its address.
fn receiver(load: &Load, processors: Option<[usize; 2]>) -> Result<(Killed, String)> {
    // If the sender never sends its goodbyes, the receiver must end by itself.
    let line = format!(
        "recv 127.0.0.1:0 --any --once --json --duration {}s --expect-interval {}ns",
        load.time.as_secs() + 20,
        (load.common_interval() * load.flows).as_nanos()
    );
    let mut command = Program::build()?.command(&line.split(' ').collect::<Vec<_>>());
    command.args(processors.iter().flat_map(|[_, there]| ["--cpu".to_owned(), there.to_string()]));
    announced(&mut command, "listening on ")
}

/// Runs the command with its defaults, except for the timer.
fn send(load: &Load, timer: &str, to: &str, processors: Option<[usize; 2]>) -> Result<String> {
    let Load { flows, bytes, time, .. } = load;
    let rate = load.common_rate().context("one rate for all flows")?;
    let cpu = processors.map_or(String::new(), |[here, _]| format!(" --cpu {here}"));
    Ok(format!(
        "send {to}{cpu} --timer {timer} --flows {flows} --rate {rate}pps --size {bytes} --duration {}s --json",
        time.as_secs()
    ))
}

/// Returns the rates of the slowest and the fastest flow, as shares of the requested one. With mixed rates, the
/// receiver reports those of the first flows.
fn extremes(load: &Load, received: &Value) -> Option<[f64; 2]> {
    if let Some(rate) = load.common_rate() {
        let rates = &received["over_flows"]["rate_pps"];
        return Some([rates["min"].as_f64()? / f64::from(rate), rates["max"].as_f64()? / f64::from(rate)]);
    }
    let share = |flow: &Value| {
        let rate = load.rate(flow["flow"].as_u64()? as u32);
        Some(1e9 / flow["gap_mean_ns"].as_f64()? / f64::from(rate))
    };
    let shares: Vec<f64> = received["per_flow"].as_array()?.iter().filter_map(share).collect();
    let extreme = |of: fn(f64, f64) -> f64| shares.iter().copied().reduce(of);
    Some([extreme(f64::min)?, extreme(f64::max)?])
}

/// Runs a contender of this bench, with the counts that it has.
fn here(
    load: &Load,
    to: SocketAddr,
    processors: Option<[usize; 2]>,
    run: fn(&Load, Lanes) -> Result<Lanes>,
) -> Result<Value> {
    let here = processors.map(|[here, _]| Processor::new(here)).transpose()?;
    let _kept = here.map(Processor::keep).transpose()?;
    let lanes = Lanes::to(to, load)?;
    let (start, before) = (Monotonic.now(), process_time());
    let lanes = run(load, lanes)?;
    // For all threads, since a contender's timers may have one.
    let used = process_time() - before;
    Ok(json!({
        "cpu_share": used.as_secs_f64() / Monotonic.now().saturating_duration_since(start).as_secs_f64(),
        "cpu_ns_per_packet": used.as_nanos() as f64 / lanes.sent() as f64,
        "packets_per_turn": lanes.per_turn(),
    }))
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
