//! The labels of the reports about noise.

use softtimers_run::field::{Field, MINIMUM, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[NOISE, RATES];

const NOISE: &[Field] = &[
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

const RATES: &[Field] = &[
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
