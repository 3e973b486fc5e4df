//! One contender, one run: who sends, and what the receiver found.

use std::net::SocketAddr;

use anyhow::Result;
use softtimers::{Clock, Monotonic};
use softtimers_lab::command::{Program, announced};
use softtimers_lab::cpu::of_thread;
use softtimers_measure::processor::Processor;

use crate::lanes::Lanes;
use crate::{Load, task_each, timerfd_each};

/// How a contender sends.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// The command with this engine.
    Command(&'static str),
    /// A thread of this bench.
    Here(fn(&Load, Lanes) -> Result<Lanes>),
}

pub(crate) const ALL: [(&str, How); 4] = [
    ("soft", How::Command("soft")),
    ("heap", How::Command("loop")),
    ("timerfd each", How::Here(timerfd_each::run)),
    ("tokio task each", How::Here(task_each::run)),
];

/// What is compared, with its decimals; what a contender does not tell is not there.
///
/// | figure | of | |
/// |---|---|---|
/// | slowest, fastest flow | receiver | its rate, in percent of what was asked for |
/// | gap deviation | receiver | of the flow in the middle, and of the worst |
/// | longest train | receiver | datagrams of all flows in a row, closer than half of the interval they have together |
/// | back to back | receiver | the share of gaps within a flow that are shorter than half its interval |
/// | lost | receiver | datagrams |
/// | left in a turn | sender | what left at once |
/// | CPU | sender | of its thread |
/// | skipped | sender | places given up, 10 ms behind |
/// | lost the CPU | sender | departures a millisecond late for want of one: the host's, other programs', a late wake-up's |
pub(crate) const COLUMNS: [(&str, usize); 12] = [
    ("slowest flow %", 2),
    ("fastest flow %", 2),
    (DEVIATION, 1),
    ("gap deviation, worst flow µs", 1),
    ("longest train", 0),
    ("back to back %", 2),
    ("left in a turn", 2),
    (CPU, 2),
    (COST, 2),
    ("lost", 0),
    ("skipped", 0),
    ("lost the CPU", 0),
];
pub(crate) const DEVIATION: &str = "gap deviation, median flow µs";
pub(crate) const CPU: &str = "CPU %";
pub(crate) const COST: &str = "CPU µs/packet";

impl How {
    /// Sends the load on the first of the processors to a receiver on the second, and says what came of it.
    pub(crate) fn run(
        self,
        load: &Load,
        processors: Option<[usize; 2]>,
        mut tell: impl FnMut(&str, Option<f64>),
    ) -> Result<()> {
        let program = Program::build()?;
        // If the sender never says goodbye, somebody must notice.
        let line = format!("recv 127.0.0.1:0 --any --once --json --duration {}s", load.time.as_secs() + 20);
        let mut command = program.command(&line.split(' ').collect::<Vec<_>>());
        command.args(processors.iter().flat_map(|[_, there]| ["--cpu".to_owned(), there.to_string()]));
        let (receiver, to) = announced(&mut command, "listening on ")?;
        let received = match self {
            How::Command(timer) => {
                send(&program, load, timer, &to, processors, &mut tell)?;
                receiver.object()?
            }
            How::Here(run) => {
                here(load, to.parse()?, processors, run, &mut tell)?;
                receiver.ended()?
            }
        };
        let over = &received["over_flows"];
        let rate = |key: &str| over["rate_pps"][key].as_f64();
        let percent = |rate: f64| 100.0 * rate / f64::from(load.packets_per_second);
        let deviation = |key: &str| over["gap_stddev_ns"][key].as_f64().map(|nanos| nanos / 1e3);
        tell("slowest flow %", rate("min").map(percent));
        tell("fastest flow %", rate("max").map(percent));
        tell(DEVIATION, deviation("p50"));
        tell("gap deviation, worst flow µs", deviation("max"));
        tell("longest train", over["longest_train"].as_f64());
        tell("back to back %", received["back_to_back"].as_f64().map(|share| 100.0 * share));
        tell("lost", received["lost"].as_f64());
        Ok(())
    }
}

/// The command's own, as it is when only the timer is given.
fn send(
    program: &Program,
    load: &Load,
    timer: &str,
    to: &str,
    processors: Option<[usize; 2]>,
    mut tell: impl FnMut(&str, Option<f64>),
) -> Result<()> {
    let Load { flows, packets_per_second, bytes, time } = load;
    let cpu = processors.map_or(String::new(), |[here, _]| format!(" --cpu {here}"));
    let line = format!(
        "send {to}{cpu} --timer {timer} --flows {flows} --rate {packets_per_second}pps --size {bytes} \
         --duration {}s --json",
        time.as_secs()
    );
    let found = program.object(&line)?;
    let lost = ["wakeup", "scheduler", "steal", "stopped"].iter();
    let lost: u64 = lost.filter_map(|cause| found["late"][cause]["count"].as_u64()).sum();
    tell(CPU, found["cpu_share"].as_f64().map(|share| 100.0 * share));
    tell(COST, found["cpu_ns_per_packet"].as_f64().map(|nanos| nanos / 1e3));
    tell("left in a turn", found["packets_per_turn"].as_f64());
    tell("skipped", found["forfeited"].as_f64());
    tell("lost the CPU", Some(lost as f64));
    Ok(())
}

/// One that this bench drives itself.
fn here(
    load: &Load,
    to: SocketAddr,
    processors: Option<[usize; 2]>,
    run: fn(&Load, Lanes) -> Result<Lanes>,
    mut tell: impl FnMut(&str, Option<f64>),
) -> Result<()> {
    let here = processors.map(|[here, _]| Processor::new(here)).transpose()?;
    let _kept = here.map(Processor::keep).transpose()?;
    let lanes = Lanes::to(to, load)?;
    let (cpu, wall) = (of_thread(), Monotonic.now());
    let lanes = run(load, lanes)?;
    let used = of_thread().saturating_sub(cpu).as_secs_f64();
    let took = Monotonic.now().saturating_duration_since(wall).as_secs_f64();
    tell(CPU, Some(100.0 * used / took));
    tell(COST, Some(used * 1e6 / lanes.sent() as f64));
    tell("left in a turn", lanes.per_turn());
    Ok(())
}
