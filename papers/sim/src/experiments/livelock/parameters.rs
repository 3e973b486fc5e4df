//! The parameters shared by the experiments with one kernel, and the configuration they make.

use std::ops::RangeInclusive;
use std::time::Duration;

use softtimers_core::Percent;
use softtimers_poll::{CpuLimitConfig, FeedbackConfig, Preset, Quota, TimeOut};

use super::config::{Config, Consumer, Kernel, TransmitPriority};
use super::generator::Spacing;
use crate::choice::choices;
use crate::constants::{Livelock, Machine};
use crate::{Need, Parameter, Parameters, RunError};

/// A kernel and its load; `rate` and `trace` are not parameters of every experiment.
pub(super) const fn parameters(rate: Parameter, trace: Parameter) -> [Parameter; 22] {
    [
        Parameter::choice_or::<Kernel>("kernel", "The kernel", "polled"),
        rate,
        Parameter::choice::<Spacing>("spacing", "Gaps between packets: each up to a quarter off the mean, all the same, or at random").needs(SYNTHETIC),
        Parameter::limit("quota", "Packets in a turn of the kernels that poll (6.6.2)", 1..=10_000, Some(5)).needs(POLLS),
        Parameter::switch("auto-quota", "Let the kernel find its quota"),
        Parameter::choice::<Consumer>("consumer", "The destination of packets"),
        Parameter::switch("feedback", "Close input when the queue to the process is full (6.6.1)"),
        Parameter::count("queue", "Room in that queue", QUEUE, PAPERS.process_queue as u64).needs(QUEUED),
        Parameter::count("high", "Fill level in % at which it closes input", PERCENT, 75).in_unit("percent").needs(FEEDBACK),
        Parameter::limit("low", "Fill level in % at which it opens input; none: by the time-out only (9)", 0..=100, Some(25)).in_unit("percent").needs(FEEDBACK),
        Parameter::time("timeout", "Time after which input is opened in any case", Duration::from_micros(1)..=Duration::from_secs(1), Duration::from_millis(1)).needs(FEEDBACK),
        Parameter::limit("cpu-limit", "% of each 10 ms for which packets may use the CPU (7)", 0..=100, None).in_unit("percent"),
        Parameter::switch("user", "A process computes without end"),
        Parameter::choice_or::<bool>("batching", "Take all waiting packets in one interrupt (4.1)", "yes").needs(BY_INTERRUPTS),
        Parameter::choice::<TransmitPriority>("transmit", "Priority of the transmit interrupt, to the receive interrupt (4.4)").needs(BY_INTERRUPTS),
        Parameter::choice::<WhereIp>("ip", "Where kernels that do not poll run IP: a thread below all interrupts, or the receive interrupt (4.4)").needs(BY_INTERRUPTS),
        Parameter::switch("eager", "Load the transmitter while it is active (8.2)").needs(EAGER),
        Parameter::count("cost", "Cost of each step, in % of that on the paper's machine (5.4)", 0..=10_000, 100).in_unit("percent"),
        Parameter::time("period", "Period of the clocked kernel (10)", Duration::from_micros(50)..=Duration::from_secs(1), Duration::from_millis(1)).needs(CLOCKED),
        Parameter::count("ring", "Packets that the interface holds", QUEUE, PAPERS.ring as u64),
        Parameter::time("duration", "Simulated time that is measured, after 0.2 s", Duration::from_millis(10)..=Duration::from_secs(1_000), Duration::from_secs(2)).needs(SYNTHETIC),
        trace,
    ]
}

const PAPERS: Livelock = Machine::PAPERS.livelock;
const QUEUE: RangeInclusive<u64> = 1..=65_536;
const PERCENT: RangeInclusive<u64> = 0..=100;

pub(super) const SYNTHETIC: Need =
    Need { with: "no trace", met: |parameters| parameters.trace("trace").is_none() };
const POLLS: Need = Need { with: "a kernel that polls: polled, high-ipl, clocked", met: polls };
const BY_INTERRUPTS: Need =
    Need { with: "kernel unmodified or no-polling", met: |parameters| !polls(parameters) };
const CLOCKED: Need =
    Need { with: "kernel clocked", met: |parameters| kernel(parameters) == Kernel::Clocked };
const FEEDBACK: Need = Need { with: "feedback yes", met: |parameters| parameters.is_on("feedback") };
const QUEUED: Need = Need {
    with: "consumer screend or monitor",
    met: |parameters| parameters.choice::<Consumer>("consumer") != Consumer::Kernel,
};
/// Otherwise a packet takes longer than the wire, so the transmitter is idle whenever one reaches it.
const EAGER: Need = Need {
    with: "a kernel that polls, ip interrupt or a cost below 100",
    met: |parameters| polls(parameters) || runs_to_completion(parameters) || parameters.count("cost") < 100,
};

fn polls(parameters: &Parameters) -> bool {
    kernel(parameters).polls()
}

fn kernel(parameters: &Parameters) -> Kernel {
    parameters.choice("kernel")
}

fn runs_to_completion(parameters: &Parameters) -> bool {
    parameters.choice::<WhereIp>("ip") == WhereIp::Interrupt
}

choices! {
    /// Where a kernel that does not poll runs IP.
    enum WhereIp {
        /// In a thread below all interrupts.
        Thread = "thread",
        /// In the receive interrupt.
        Interrupt = "interrupt",
    }
}

/// Returns the configuration for parameters. If you use its rate, call [`Config::checked`].
pub(super) fn config(parameters: &Parameters) -> Result<Config, RunError> {
    let yes = |name| parameters.is_on(name);
    let kernel = kernel(parameters);
    let consumer = parameters.choice("consumer");
    let quota = parameters.limit("quota").map_or(Quota::NONE, |quota| {
        let quota = u32::try_from(quota).unwrap_or(u32::MAX);
        Quota::new(quota, quota)
    });
    let limit = parameters.limit("cpu-limit");
    for (name, asked) in
        [("auto-quota", yes("auto-quota")), ("feedback", yes("feedback")), ("cpu-limit", limit.is_some())]
    {
        if asked && !kernel.polls() {
            let kernel = parameters.word("kernel");
            return Err(RunError::new(format_args!(
                "{name}: kernel {kernel} has none; only kernels that poll have one"
            )));
        }
    }
    if runs_to_completion(parameters) && kernel.polls() {
        let kernel = parameters.word("kernel");
        return Err(RunError::new(format_args!(
            "ip interrupt: kernel {kernel} polls; unmodified and no-polling do not"
        )));
    }
    Ok(Config {
        consumer,
        quota,
        auto_quota: yes("auto-quota"),
        feedback: if yes("feedback") { Some(feedback(parameters, consumer)?) } else { None },
        limit: limit.map(share).transpose()?.map(|share| CpuLimitConfig::preset(Preset::Paper, share)),
        period: parameters.time("period"),
        user: yes("user"),
        batching: yes("batching"),
        transmit: parameters.choice("transmit"),
        to_completion: runs_to_completion(parameters),
        eager: yes("eager"),
        percent: parameters.count_u32("cost"),
        spacing: parameters.choice("spacing"),
        ring: parameters.count_u32("ring"),
        queue: parameters.count_u32("queue"),
        duration: parameters.time("duration"),
        ..Config::new(kernel, parameters.count("rate")).on(parameters.hardware())
    })
}

fn feedback(parameters: &Parameters, consumer: Consumer) -> Result<FeedbackConfig, RunError> {
    if consumer == Consumer::Kernel {
        return Err(RunError::new("feedback yes: consumer kernel has no queue; screend and monitor have"));
    }
    let queue = parameters.count("queue");
    let mark = |percent| Ok(u32::try_from(share(percent)?.of_units(queue)).unwrap_or(u32::MAX));
    let marks = FeedbackConfig {
        high: mark(parameters.count("high"))?,
        low: parameters.limit("low").map(mark).transpose()?,
        time_out: TimeOut::After(parameters.time("timeout")),
    };
    marks.checked(parameters.count_u32("queue")).map_err(RunError::new)
}

fn share(percent: u64) -> Result<Percent, RunError> {
    Percent::new(u32::try_from(percent).unwrap_or(u32::MAX)).map_err(RunError::new)
}
