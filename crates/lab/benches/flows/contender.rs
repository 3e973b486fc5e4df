//! One contender, one run: who sends, and what the receiver found.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Result, anyhow};
use softtimers::{Clock, Monotonic};
use softtimers_lab::command::{Killed, Program, announced};
use softtimers_lab::cpu::of_thread;
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
        let program = Program::build()?;
        let (receiver, to) = receiver(&program, load, processors)?;
        let sent = match self {
            Contender::Soft => command(&program, load, "soft", to, processors)?,
            Contender::Heap => command(&program, load, "loop", to, processors)?,
            Contender::TimerfdEach => peer(load, to, processors, timerfd_each::run)?,
            _ => peer(load, to, processors, task_each::run)?,
        };
        Ok(figures::told(load, &sent, &receiver.object()?))
    }
}

fn receiver(program: &Program, load: &Load, processors: Option<[usize; 2]>) -> Result<(Killed, SocketAddr)> {
    // If the sender never says goodbye, somebody must notice; the peers do not ask.
    let most = load.time.as_secs() + 20;
    let line = format!("recv 127.0.0.1:0 --any --once --json --duration {most}s");
    let mut command = program.command(&line.split(' ').collect::<Vec<_>>());
    command.args(processors.iter().flat_map(|[_, there]| ["--cpu".to_owned(), there.to_string()]));
    let (receiver, line) = announced(&mut command)?;
    let address = line.strip_prefix("listening on ").ok_or_else(|| anyhow!("the receiver: {line}"))?;
    Ok((receiver, address.parse()?))
}

/// The command's own, as it is when only the timer is given.
fn command(
    program: &Program,
    load: &Load,
    timer: &str,
    to: SocketAddr,
    processors: Option<[usize; 2]>,
) -> Result<Sent> {
    let Load { flows, packets_per_second, bytes, time, .. } = load;
    let cpu = processors.map_or(String::new(), |[here, _]| format!(" --cpu {here}"));
    let line = format!(
        "send {to}{cpu} --timer {timer} --flows {flows} --rate {packets_per_second}pps --size {bytes} \
         --duration {}s --json",
        time.as_secs()
    );
    let mut command = program.command(&line.split(' ').collect::<Vec<_>>());
    let found = Killed::from(command.stdout(Stdio::piped()).spawn()?).object()?;
    let packets = found["sent"].as_u64().ok_or_else(|| anyhow!("no `sent` in what it prints"))?;
    let cpu_seconds = found["cpu_ns_per_packet"].as_f64().unwrap_or(f64::NAN) * packets as f64 / 1e9;
    let lost = ["wakeup", "scheduler", "steal", "stopped"].iter();
    Ok(Sent {
        packets,
        cpu_seconds,
        wall_seconds: cpu_seconds / found["cpu_share"].as_f64().unwrap_or(f64::NAN),
        per_turn: found["packets_per_turn"].as_f64(),
        forfeited: found["forfeited"].as_u64(),
        lost_processor: Some(lost.filter_map(|cause| found["late"][cause]["count"].as_u64()).sum()),
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
