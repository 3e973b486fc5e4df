//! Labels of the commands that examine a machine.

use super::{CPU, Field, MINIMUM, TIME, field};

pub(super) const PROBE: &[Field] = &[
    TIME,
    field("CPU", "", "The CPU's number."),
    field("intervals", "intervals", "Intervals between trigger states, without those of idleness."),
    field("idle", "share", "The share of time that the CPU was idle."),
    field(
        "mean, p50, stddev, min, p99, p99.9, max",
        "time",
        "Statistics of the intervals: mean and maximum are exact, the others within an eighth.",
    ),
    field("over 100 µs", "share", "Intervals longer than 100 µs."),
    field("over 150 µs", "share", "Intervals longer than 150 µs."),
    field("window", "time", "The medians of windows of this length."),
    field("source", "", "The trigger source that ended the interval."),
    field("share", "share", "Intervals that this source ended."),
    field("without mean, p50, stddev, max", "time", "The intervals as they would be without this source."),
    field(
        "l1d misses, l1i misses, itlb misses",
        "times",
        "Misses of the CPU's caches during the run, where it counts them.",
    ),
    field("command", "", "How the command ended."),
    field(
        "overhead",
        "time",
        "The cost of the probe for each system call, with its interval of 95% confidence.",
    ),
];

pub(super) const COMPARISON: &[Field] = &[
    field(
        "method",
        "",
        "The same stream by each method of send --timer, from a loop that serves an echo server and from an idle one.",
    ),
    field("rate kept", "share", "The rate achieved, as a share of the requested rate."),
    field("back to back", "share", "Gaps shorter than half the target gap, as a share of all gaps."),
    field("longest burst", "packets", "The most packets in a row joined by such gaps."),
    field("gap p50, p99, p99.9", "time", "Time between arrivals, by the kernel's receive timestamps."),
    field("late p50, p99", "time", "Lateness of departures."),
    CPU,
    field(
        "work kept",
        "share",
        "Throughput retained: requests answered beside the pacing, as a share of those that the same loop answers without it.",
    ),
    field(
        "useful range",
        "time",
        "The intervals between events for which softtimers is useful on this machine.",
    ),
    field("gaps", "", "With --verbose: consecutive gaps from the middle of the run, a bar each."),
    field("late over 1 ms", "", "With --verbose: departures by cause, with the longest pause."),
    field("clock checks", "time", "With --verbose: the mean time between two checks of the clock."),
    field("works here", "", "Kernel features that were tried and worked."),
    field("not seen to work", "", "Kernel features that did not work for this user; --verbose says why."),
    field("not probed", "", "Kernel features that were not tried, because a signal had ended the run."),
];

pub(super) const COSTS: &[Field] = &[
    field("clock read", "time", "Reading the clock."),
    field("TSC read", "time", "Reading the CPU's own counter as a clock."),
    field("empty check", "time", "A trigger state without a due event, clock read included."),
    field(
        "soft event",
        "time",
        "A soft event: scheduled, found due and handed out; and its share of a timer signal.",
    ),
    field("system call", "time", "A system call that does nothing."),
    field("arming a timer", "time", "Setting the kernel timer to another time."),
    field("timer signal", "time", "CPU time that a timer's signal takes from a computing thread."),
    field("wake-up", "time", "CPU time of a sleep and its wake-up, by time-out and by a timer descriptor."),
    field(
        "scheduler slice",
        "time",
        "How long a computing thread keeps the CPU before another one gets it, and the kernel's stated slice.",
    ),
    MINIMUM,
    field(
        "late, usual slack",
        "time",
        "Lateness of a sleep of 200 µs with the thread's timer slack as it was.",
    ),
    field("late, slack 1 ns", "time", "The same with a timer slack of 1 ns."),
];

pub(super) const NOISE: &[Field] = &[
    field("calibrated", "time", "The minimum over many runs of the computation that a phase consists of."),
    MINIMUM,
    field("phase", "time", "Time that phases took."),
    field("delayed", "share", "Phases longer than the threshold."),
    field("over", "", "Multiples of the median phase."),
    field("phases", "share", "Phases longer than this multiple."),
    field("cause", "", "Why delayed phases were delayed."),
    field("delayed phases", "phases", "Delayed phases of this cause."),
    field("in all, longest", "time", "Delay by this cause: the sum, and the longest."),
    field(
        "interrupts",
        "per phase",
        "Interrupts in a delayed phase, and in an undelayed one; by line of /proc/interrupts.",
    ),
    field(
        "nodes",
        "nodes",
        "A bulk-synchronous job on N such machines, which waits for the slowest in each phase.",
    ),
    field("slowdown", "times", "The mean phase of the job, as a multiple of the median phase of one node."),
    field("undelayed", "share", "Phases of the job in which no node is delayed."),
    field(
        "would do",
        "probability",
        "The probability of delay per node that would suffice: a tenth of one in N.",
    ),
];

pub(super) const RATES: &[Field] = &[
    field("timer", "", "With --rates: a periodic tick of this rate, or smart timers with as much slack."),
    field("wake-ups", "1/s", "With --rates: wake-ups per second beside the computation."),
    field("CPU", "share", "With --rates: CPU time of the timer thread, of one core."),
    field("work kept", "share", "With --rates: throughput retained by the computation beside it."),
    field("each costs", "time", "With --rates: computing time lost per wake-up."),
    field("late p50, max", "time", "With --rates: time from due to run."),
    field(
        "idle wake-ups, CPU, deepest",
        "1/s, share",
        "With --rates, on an idle CPU: the same, and the share of time in the deepest sleep state the kernel knows.",
    ),
    field("watts", "W", "With --rates: power of all packages on an idle CPU."),
];

pub(super) const OVERLOAD: &[Field] = &[
    field("work", "time", "Cost of the filter per datagram, before and after the trials."),
    field("MLFRR", "pps", "The maximum loss-free receive rate, confirmed by a longer trial."),
    field("capacity", "pps", "The highest rate delivered in a trial of the search."),
    field("load", "", "The rate as a multiple of the capacity."),
    field("offered", "pps", "Datagrams sent."),
    field("burst", "packets", "Datagrams that the sender sent back to back."),
    field("delivered", "pps", "Datagrams that the receiver finished in the trial."),
    field("left", "pps", "Datagrams finished only after the trial."),
    field(
        "ring, queue, output",
        "pps",
        "Datagrams dropped there: the receive buffer, the queue between stages, the filter and the output.",
    ),
    field("p50, p99", "time", "Latency from the kernel's receive time."),
    field("timer", "share", "The share of its expiries at which a 20 ms timer of the loop fired."),
    CPU,
    field("else", "share", "The share of a CPU that other work got next to the receiver."),
    field(
        "overload",
        "",
        "Behaviour under overload: ideal, stable or livelock, and the rate delivered at the highest load.",
    ),
    field(
        "20 ms timer",
        "share",
        "The smallest share of its expiries at which the timer fired, over all points.",
    ),
    field(
        "no progress",
        "share",
        "The largest share of a point's time with input and no progress for 10 ms.",
    ),
];
