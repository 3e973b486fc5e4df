//! The labels of a diagnosis.

use softtimers_run::field::{CPU, Field, MINIMUM, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[PROGRAMS, COMPARISON, COSTS, RECEIVE];

const PROGRAMS: &[Field] = &[
    field("loop", "", "A kind of program: so many requests handled in a row, or idle with this gap."),
    field("use", "", "What holds the rate there and asks the least of the program."),
    field(
        "soft",
        "share",
        "What softtimers reached there: the share of the rate, and of gaps shorter than half the target.",
    ),
    field("loop check", "share", "The same by a clock check after each handler."),
    field("kernel timer", "share", "The same by the best kernel timer."),
];

const COMPARISON: &[Field] = &[
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
    field("gaps", "", "Consecutive gaps from the middle of the run, a bar each."),
    field("late over 1 ms", "", "With --verbose: departures by cause, with the longest pause."),
    field("clock checks", "time", "With --verbose: the mean time between two checks of the clock."),
    field("works here", "", "Kernel features that were tried and worked."),
    field("failed here", "", "Kernel features that did not work for this user; --verbose says why."),
    field("not probed", "", "Kernel features that were not tried, because a signal had ended the run."),
];

const COSTS: &[Field] = &[
    field("clock read", "time", "Reading the clock."),
    field("TSC read", "time", "Reading the CPU's own counter, without calibration."),
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

/// Those of `doctor --receive`: all counts are of the time that it watched.
const RECEIVE: &[Field] = &[
    field("CPU number", "", "With --receive: a CPU of this machine."),
    field("interrupts", "share", "The share of its time in interrupts."),
    field("softirq", "share", "The share of its time in softirq, where the kernel receives packets."),
    field("idle", "share", "The share of its time that was left."),
    field("received", "packets", "Packets that it took out of drivers and backlogs."),
    field(
        "backlog full",
        "packets",
        "Packets dropped because its backlog was full (net.core.netdev_max_backlog).",
    ),
    field("budget used", "times", "How often softirq stopped with packets left (net.core.netdev_budget)."),
    field("interface", "", "With --receive: an interface that received or lost something."),
    field("packets", "packets", "Packets that it received."),
    field("ring full", "packets", "Packets that the card or its ring had no room for."),
    field("dropped", "packets", "Packets dropped by its driver, or right behind it."),
    field("queues", "queues", "Its receive queues: as many CPUs can receive at once."),
    field(
        "pollable",
        "queues",
        "Those that a program can poll instead of being interrupted (docs/overload.md).",
    ),
    field("threaded", "", "Whether kernel threads receive for it, which the scheduler can stop."),
    field(
        "deferred interrupts",
        "times",
        "Its napi_defer_hard_irqs: how long polling goes on without an interrupt.",
    ),
    field("flush time-out", "time", "Its gro_flush_timeout: when an interrupt comes if nobody polls."),
];
