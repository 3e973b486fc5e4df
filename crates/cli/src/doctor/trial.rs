//! One paced stream by one method, between two processes of this program.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::args::Timer;
use crate::failure::Failure;
use crate::processor::Processor;
use crate::units::show_duration;

/// What the sending loop does meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// It serves a saturated echo server.
    #[default]
    Echo,
    /// It is idle.
    None,
}

/// One method under one load. Gaps are the receiver's.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Cell {
    /// The method, as `send --timer` names it.
    pub method: String,
    /// The load.
    pub busy: Load,
    /// The gap asked for.
    pub target_gap_ns: u64,
    /// Departures a second.
    pub achieved_pps: f64,
    /// That as a share of what was asked for.
    pub achieved_share: f64,
    /// Gaps between arrivals, by the kernel's timestamps.
    pub gap_ns: Value,
    /// The share of those gaps shorter than half the target.
    pub back_to_back: Option<f64>,
    /// The most datagrams in a row joined by such gaps.
    pub longest_burst: Option<u64>,
    /// The same share by the sender's own account.
    pub sender_back_to_back: Option<f64>,
    /// The same run by the sender's own account.
    pub sender_longest_burst: Option<u64>,
    /// Datagrams sent and not received.
    pub lost: u64,
    /// Departure time less due time.
    pub late_ns: Value,
    /// CPU time of the sending thread, as a share of one processor.
    pub cpu_share: f64,
    /// Requests answered a second.
    pub work_rate: Option<f64>,
    /// That as a share of what the same loop answers without pacing.
    pub work_kept: Option<f64>,
}

impl Cell {
    pub(super) fn method_name(&self) -> &str {
        &self.method
    }

    pub(super) fn line(&self) -> String {
        let micros = |key: &str| {
            let nanos = self.gap_ns.get(key).and_then(Value::as_f64);
            nanos.map_or("-".to_owned(), |nanos| format!("{:.1}", nanos / 1e3))
        };
        let share =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}%", share * 100.0));
        format!(
            "{:>6} of the rate, {:>5} back to back, burst {:>2}, gap p50 {:>7} p99 {:>7} p99.9 {:>7} us, cpu {:>6}, work kept {:>6}",
            share(Some(self.achieved_share)),
            share(self.back_to_back),
            self.longest_burst.unwrap_or(0),
            micros("p50"),
            micros("p99"),
            micros("p999"),
            share(Some(self.cpu_share)),
            share(self.work_kept),
        )
    }
}

/// What the loop does when it does not pace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Baseline {
    work_rate: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) timer: Timer,
    pub(super) load: Load,
    pub(super) interval: Duration,
    pub(super) duration: Duration,
    pub(super) echo_batch: usize,
}

impl Trial {
    pub(super) fn baseline(&self) -> Result<Baseline, Failure> {
        // Nothing is sent, so any address that needs no receiver will do.
        let sent = self.send("127.0.0.1:9")?;
        let work_rate = sent["work_rate"].as_f64().unwrap_or(0.0);
        Ok(Baseline { work_rate })
    }

    pub(super) fn run(&self, baseline: Option<&Baseline>) -> Result<Cell, Failure> {
        let receiver = Receiver::start()?;
        let sent = self.send(&receiver.address)?;
        let received = receiver.finish()?;
        let achieved_pps = sent["achieved_pps"].as_f64().unwrap_or(0.0);
        let work_rate = sent["work_rate"].as_f64();
        Ok(Cell {
            method: self.timer_name(),
            busy: self.load,
            target_gap_ns: u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX),
            achieved_pps,
            achieved_share: achieved_pps * self.interval.as_secs_f64(),
            gap_ns: received["gap_ns"].clone(),
            back_to_back: received["back_to_back"].as_f64(),
            longest_burst: received["longest_burst"].as_u64(),
            sender_back_to_back: sent["back_to_back"].as_f64(),
            sender_longest_burst: sent["longest_burst"].as_u64(),
            lost: received["lost"].as_u64().unwrap_or(0),
            late_ns: sent["late_ns"].clone(),
            cpu_share: sent["cpu_share"].as_f64().unwrap_or(0.0),
            work_rate,
            work_kept: work_rate
                .zip(baseline)
                .map(|(rate, baseline)| rate / baseline.work_rate.max(f64::MIN_POSITIVE)),
        })
    }

    fn timer_name(&self) -> String {
        self.timer.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    fn send(&self, address: &str) -> Result<Value, Failure> {
        let mut command = this_program()?;
        command.args(["send", address, "--json", "--timer", &self.timer_name()]);
        command.args(["--interval", &show_duration(self.interval)]);
        command.args(["--duration", &show_duration(self.duration)]);
        if self.load == Load::Echo {
            command.args(["--busy", "echo", "--echo-batch", &self.echo_batch.to_string()]);
        }
        if let Some([here, _]) = Processor::two() {
            command.args(["--cpu", &here.to_string()]);
        }
        let child = spawn(command.stderr(Stdio::piped()))?;
        finish(child, None)
    }
}

/// `softtimers recv` on a free port.
struct Receiver {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Receiver {
    fn start() -> Result<Self, Failure> {
        let mut command = this_program()?;
        command.args(["recv", "127.0.0.1:0", "--once", "--json"]);
        // The receiver's work is not the sender's: on its processor it would come in between.
        if let Some([_, there]) = Processor::two() {
            command.args(["--cpu", &there.to_string()]);
        }
        let mut child = spawn(command.stderr(Stdio::piped()))?;
        let stderr = child.stderr.take().ok_or_else(|| Failure::check("the receiver has no stderr"))?;
        let mut stderr = BufReader::new(stderr);
        let mut line = String::new();
        stderr.read_line(&mut line).map_err(|error| Failure::broke_off("starting the receiver", &error))?;
        match line.trim().strip_prefix("listening on ") {
            Some(address) => Ok(Receiver { address: address.to_owned(), child, stderr }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Failure::check(format_args!("the receiver did not start: {}", line.trim())))
            }
        }
    }

    fn finish(self) -> Result<Value, Failure> {
        finish(self.child, Some(self.stderr))
    }
}

fn this_program() -> Result<Command, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::broke_off("finding this program", &error))?;
    Ok(Command::new(program))
}

fn spawn(command: &mut Command) -> Result<Child, Failure> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::broke_off("starting a process", &error))
}

/// Waits for the child and reads its object.
fn finish(mut child: Child, stderr: Option<BufReader<ChildStderr>>) -> Result<Value, Failure> {
    let stderr = stderr.or_else(|| child.stderr.take().map(BufReader::new));
    let output =
        child.wait_with_output().map_err(|error| Failure::broke_off("waiting for a process", &error))?;
    if !output.status.success() {
        let said = stderr.and_then(|said| said.lines().map_while(Result::ok).last()).unwrap_or_default();
        return Err(Failure::check(format_args!("a trial failed: {said}")));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::check(format_args!("a trial printed no object: {error}")))
}
