//! One contender, one run: who sends, and what the receiver found.

use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use clap::Parser;
use serde_json::Value;
use softtimers::{Clock, Monotonic};
use softtimers_cli::args::{Cli, Command};
use softtimers_cli::plan::SendPlan;
use softtimers_cli::send::{self, SendReport};
use softtimers_lab::cpu::of_thread;
use softtimers_measure::child::Process;
use softtimers_measure::processor::Processor;

use crate::figures::{self, Figures};
use crate::lanes::Lanes;
use crate::{Load, iperf, task_each, timerfd_each};

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    Soft,
    Heap,
    TimerfdEach,
    TaskEach,
    Iperf,
}

/// What the sender knows of its run.
pub(crate) struct Sent {
    pub(crate) packets: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
    /// Only the command's own tell.
    pub(crate) per_turn: Option<f64>,
    /// Places given up.
    pub(crate) forfeited: Option<u64>,
    /// Departures that lost their processor for a millisecond or more: to the host, to others, to a late wake-up.
    pub(crate) lost_processor: Option<u64>,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Soft => "soft",
            Contender::Heap => "heap",
            Contender::TimerfdEach => "timerfd each",
            Contender::TaskEach => "tokio task each",
            Contender::Iperf => "iperf3",
        }
    }

    /// Sends the load on the first of the processors to a receiver on the second.
    pub(crate) fn run(self, load: &Load, processors: Option<[usize; 2]>) -> Result<Figures> {
        if self == Contender::Iperf {
            return iperf::run(load, processors);
        }
        let (receiver, to) = receiver(load, processors)?;
        let sent = match self {
            Contender::Soft => command(load, "soft", to, processors)?,
            Contender::Heap => command(load, "loop", to, processors)?,
            Contender::TimerfdEach => peer(load, to, processors, timerfd_each::run)?,
            _ => peer(load, to, processors, task_each::run)?,
        };
        let received: Value = receiver.finish().map_err(|failure| anyhow!("{failure}"))?;
        Ok(figures::told(load, &sent, &received))
    }
}

fn receiver(load: &Load, processors: Option<[usize; 2]>) -> Result<(Process, SocketAddr)> {
    // If the sender never says goodbye, somebody must notice.
    let most = load.time.as_secs() + 20;
    // The peers do not ask.
    let mut words = format!("recv 127.0.0.1:0 --any --once --json --duration {most}s");
    words += &processors.map_or(String::new(), |[_, there]| format!(" --cpu {there}"));
    let words: Vec<String> = words.split(' ').map(ToOwned::to_owned).collect();
    let started = Process::start("the receiver".into(), &words);
    let (receiver, address) = started
        .and_then(|receiver| receiver.announced("listening on "))
        .map_err(|failure| anyhow!("{failure}"))?;
    Ok((receiver, address.parse()?))
}

/// The command's own, as it is when only the timer is given.
fn command(load: &Load, timer: &str, to: SocketAddr, processors: Option<[usize; 2]>) -> Result<Sent> {
    let Load { flows, packets_per_second, bytes, time, .. } = load;
    let cpu = processors.map_or(String::new(), |[here, _]| format!(" --cpu {here}"));
    let line = format!(
        "softtimers send {to}{cpu} --timer {timer} --flows {flows} --rate {packets_per_second}pps --size {bytes} \
         --duration {}s",
        time.as_secs()
    );
    let Command::Send(arguments) = Cli::try_parse_from(line.split(' '))?.command else {
        return Err(anyhow!("the line is one of send"));
    };
    let plan = SendPlan::new(&arguments).map_err(|failure| anyhow!("{failure}"))?;
    let outcome = send::measure(&plan).map_err(|failure| anyhow!("{failure}"))?;
    if let Some(failure) = outcome.broke_off {
        return Err(anyhow!("{failure}"));
    }
    let SendReport { sent, cpu_ns_per_packet, cpu_share, packets_per_turn, forfeited, late, .. } =
        outcome.report;
    let cpu_seconds = cpu_ns_per_packet.unwrap_or(f64::NAN) * sent as f64 / 1e9;
    let lost_processor = ["wakeup", "scheduler", "steal", "stopped"];
    Ok(Sent {
        packets: sent,
        cpu_seconds,
        wall_seconds: cpu_seconds / cpu_share,
        per_turn: packets_per_turn,
        forfeited: Some(forfeited),
        lost_processor: Some(
            lost_processor.iter().filter_map(|cause| late.get(cause)).map(|late| late.count).sum(),
        ),
    })
}

/// One that this bench drives itself.
fn peer(
    load: &Load,
    to: SocketAddr,
    processors: Option<[usize; 2]>,
    run: fn(&Load, Lanes) -> Result<Lanes>,
) -> Result<Sent> {
    let here = processors.map(|[here, _]| Processor::new(here)).transpose();
    let _kept = here.map_err(|failure| anyhow!("{failure}"))?.map(Processor::keep).transpose()?;
    let lanes = Lanes::to(to, load)?;
    let (cpu, wall) = (of_thread(), Monotonic.now());
    let lanes = run(load, lanes)?;
    let used = of_thread().saturating_sub(cpu);
    let took = Monotonic.now().saturating_duration_since(wall);
    lanes.say_goodbye()?;
    Ok(Sent {
        packets: lanes.sent(),
        cpu_seconds: used.as_secs_f64(),
        wall_seconds: took.as_secs_f64(),
        per_turn: lanes.per_turn(),
        forfeited: None,
        lost_processor: None,
    })
}
