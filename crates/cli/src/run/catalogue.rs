//! Every label that a report prints, with its unit and meaning. The OUTPUT FIELDS of each manual page are made of it, and a test
//! finds labels that it lacks: a figure that no page explains is not printed.

#[cfg(test)]
use softtimers_sim::experiments;

/// A label of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    /// As it is printed.
    pub(crate) label: &'static str,
    /// Such as `time`, `packets` or `share`; empty for words.
    pub(crate) unit: &'static str,
    /// A sentence or two.
    pub(crate) meaning: &'static str,
}

/// The labels of a command, in the order in which it prints them; empty for a command that has none of its own.
pub(crate) fn fields(command: &str) -> Vec<&'static Field> {
    let groups: &[&[Field]] = match command {
        "send" => &[SENDING, SENDER],
        "replay" => &[REPLAYED, SENDING, SENDER],
        "recv" => &[RECEIVER],
        "echo-client" => &[ECHO],
        "wan" => &[PATH, WITHHELD, SELF_TEST],
        "forward" => &[FORWARDER, WITHHELD],
        "capture" => &[CAPTURED],
        "probe" => &[PROBE],
        "doctor" => &[COMPARISON, COSTS],
        "noise" => &[NOISE, RATES],
        "bench" => &[OVERLOAD],
        "report" => &[REPORT],
        _ => &[],
    };
    groups.iter().copied().flatten().collect()
}

/// Says whether a page explains this label of a command: by itself, in a list such as `gap p50, p99`, or as a
/// percentile of what is explained.
#[cfg(test)]
pub(crate) fn explains(command: &str, label: &str) -> bool {
    if command == "sim" {
        // Each experiment's help lists its columns, of the same data.
        return experiments::ALL
            .iter()
            .flat_map(|experiment| experiment.columns)
            .any(|column| column.name == label);
    }
    let fields = fields(command);
    let listed = |list: &str| {
        let prefix =
            list.split(", ").next().and_then(|first| first.rsplit_once(' ')).map_or("", |(prefix, _)| prefix);
        list.split(", ").any(|one| one == label || format!("{prefix} {one}") == label)
    };
    let known = |label: &str| fields.iter().any(|field| field.label == label || listed(field.label));
    let of_times = ["p50", "p99", "p99.9", "max"].iter().find_map(|one| label.strip_suffix(one));
    known(label) || of_times.is_some_and(|rest| known(rest.trim_end()))
}

const fn field(label: &'static str, unit: &'static str, meaning: &'static str) -> Field {
    Field { label, unit, meaning }
}

const CPU: Field = field("CPU", "share", "CPU time as a share of one core; 100% is one core all the time.");
const WAKE_UPS: Field = field("wake-ups", "times", "How often it slept and was woken.");
const BACK_TO_BACK: Field =
    field("back to back", "share", "Gaps shorter than half the target gap, as a share of all gaps.");
const LONGEST_BURST: Field =
    field("longest burst", "packets", "The most packets in a row joined by such gaps.");
const TIME: Field = field("time", "s", "The end of the second that a line is about, since the run began.");
const MINIMUM: Field = field(
    "min, p50, p99, p99.9, max",
    "time",
    "Percentiles of the times to their left: p99 is exceeded by one in a hundred.",
);

const SENDING: &[Field] = &[
    TIME,
    field("rate", "pps", "Datagrams per second from the first to the last, and what was asked for."),
    field("sent", "datagrams", "Datagrams that the kernel took."),
    field(
        "skipped",
        "datagrams",
        "Scheduled times skipped because the sender fell behind by more than --catch-up.",
    ),
    MINIMUM,
    field(
        "late",
        "time",
        "Lateness: time of departure less scheduled time. It includes catching up and retries.",
    ),
    field("gap", "time", "Time between departures of a flow, by the sender's clock."),
    BACK_TO_BACK,
    LONGEST_BURST,
];

const SENDER: &[Field] = &[
    field(
        "flow share",
        "share",
        "Of several flows: what the slowest and the fastest sent, as a share of what their rate asks for.",
    ),
    field("longest train", "packets", "Of several flows: the longest burst of all of them together."),
    field(
        "per turn",
        "packets",
        "Of several flows: the mean number of datagrams that left when some were due.",
    ),
    field(
        "per call",
        "packets",
        "Datagrams for each system call, where one took several; some may be segments cut by the kernel (UDP_SEGMENT).",
    ),
    CPU,
    field(
        "busy-poll time",
        "share",
        "CPU time that the idle policy spent polling with nothing due, its limit, and sleeps that the limit forced.",
    ),
    WAKE_UPS,
    field(
        "fired by",
        "datagrams",
        "Departures by the trigger source that fired them: backup is the fallback timer, idle a poll of the idle policy.",
    ),
    field(
        "clock checks",
        "time",
        "Time between two checks of the clock, waits included. No departure is late by more while the loop runs.",
    ),
    field("trigger states", "times", "Checkpoints that the loop passed, by source."),
    field("long handlers", "times", "Handlers of the loop that took over 1 ms, and the longest of all."),
    field("timer overruns", "times", "Expiries of the kernel's timer for which no signal of their own came."),
    field("late over 1 ms", "", "Why departures were over a millisecond late; each line is a cause."),
    field("departures", "datagrams", "Late departures of this cause."),
    field("longest", "time", "The longest pause of this cause; of catch up, the greatest lateness."),
    field("because", "", "The cause in words."),
    field(
        "retried",
        "times",
        "Sends that met a full buffer or queue, or an earlier datagram's ICMP error, and were tried again.",
    ),
    field("answers dropped", "datagrams", "Answers of the echo server that its socket had no room for."),
    field("work", "1/s", "Requests answered, or pieces computed, by the other work of the loop."),
];

const REPLAYED: &[Field] = &[
    field(
        "recording",
        "",
        "Packets, length and volume of the recording, and the most packets in one of its seconds.",
    ),
    field("recorded gap", "time", "Gaps of the recording."),
    field("recorded bursts", "share", "Gaps of the recording that are shorter than half its mean gap."),
    field("late at the end", "time", "Lateness of the last datagram: how far the replay had drifted."),
];

const RECEIVER: &[Field] = &[
    TIME,
    field(
        "rate",
        "bit/s, pps",
        "Payload bits and datagrams per second, from the first datagram to the last.",
    ),
    field("packets", "pps", "Datagrams per second."),
    field("received", "datagrams", "Datagrams of softtimers senders, duplicates included."),
    field(
        "lost",
        "datagrams",
        "Datagrams sent and not received in time, of all that were sent, by sequence numbers and goodbyes.",
    ),
    field("reordered", "datagrams", "Datagrams overtaken by a later one of their flow."),
    field("duplicated", "datagrams", "Datagrams received again."),
    MINIMUM,
    field("gap", "time", "Time between arrivals of a flow, by the kernel's receive timestamps."),
    field(
        "PDV",
        "time",
        "Packet delay variation (RFC 5481): one-way delay from the scheduled time, less the least of the flow.",
    ),
    BACK_TO_BACK,
    LONGEST_BURST,
    field("flows", "flows", "Flows received: an address and port with a flow number."),
    field("per flow", "datagrams", "The fewest and the most datagrams received of one flow."),
    field("gap deviation", "time", "The standard deviation of gaps, over flows."),
    field("mean PDV", "time", "The mean PDV, over flows."),
    field("longest train", "packets", "The longest burst of all flows together."),
    field("worst flows", "", "The flows that lost most: peer address and flow number."),
    field("too late", "datagrams", "Received over 4,096 datagrams after their turn; counted as lost."),
    field(
        "socket drops",
        "datagrams",
        "Dropped because this socket's receive buffer was full; among the lost.",
    ),
    field("not softtimers", "datagrams", "Datagrams in another format; in no other count."),
    field(
        "strangers",
        "datagrams",
        "Datagrams of senders that had not agreed, or that claim what cannot be; in no other count.",
    ),
    field(
        "beyond 16384 flows",
        "datagrams",
        "Datagrams of flows beyond those told apart; in no other count.",
    ),
];

const ECHO: &[Field] = &[
    field("rate", "1/s", "Replies per second."),
    field("replies", "replies", "Replies received in time."),
    field("lost", "requests", "Requests without a reply within 100 ms."),
    MINIMUM,
    field("round trip", "time", "From request to reply."),
];

const PATH: &[Field] = &[
    TIME,
    field("up", "", "The path from the clients to the server; down is the way back."),
    field("way", "", "up is from the clients to the server, down the way back."),
    field("in", "packets", "Packets that came in."),
    field("out", "packets", "Packets that went out, copies included."),
    field("rate", "bit/s", "Payload bits per second, from the first packet that went out to the last."),
    field("lost", "packets", "Packets lost behind the bottleneck, of those that were through it."),
    MINIMUM,
    field("delay", "time", "From coming in to going out."),
    field("late", "time", "By how much later than the path says packets went out: the emulator's own error."),
    field("queue drops", "packets", "Packets that found the queue full."),
    field("reordered", "packets", "Packets that went out after one that came in later."),
    field("duplicated", "packets", "Second copies."),
    field("corrupted", "packets", "Packets with a flipped bit."),
    field("marked", "packets", "Packets marked as having met congestion."),
    field("overflowed", "packets", "Packets that found the emulator full: a limit that no path has."),
    field("under way", "packets", "Packets still on the path at the end."),
    field("clients", "clients", "Clients at the end, and all there have been."),
    field("cut again", "frames", "Frames that the kernel had joined and the emulator cut again."),
    field("not cut", "frames", "Joined frames that could not be cut."),
    field("too long", "frames", "Frames longer than the other interface takes."),
    field("marks written", "frames", "Congestion marks written into frames."),
    field(
        "dropped unread",
        "packets",
        "Dropped because the emulator did not read in time: its own loss, not the path's.",
    ),
    field(
        "dropped unsent",
        "packets",
        "Dropped because they could not be sent: its own loss, not the path's.",
    ),
    field("reset", "connections", "Connections reset by one side."),
    field(
        "refused",
        "packets",
        "Packets of new sources for which the system had no socket, or from where no client can be.",
    ),
    field("stray", "packets", "Packets whose client was gone."),
    field(
        "upstream refused",
        "times",
        "Times that the other end, or a host on the way, said that it is not there.",
    ),
    CPU,
    WAKE_UPS,
];

const SELF_TEST: &[Field] = &[
    field("limit", "bit/s", "With --self-test: the highest rate without a loss of the emulator's own."),
    field("sent", "packets", "With --self-test: packets that the sender sent at this rate."),
    field("lost here", "packets", "With --self-test: packets lost by the emulator."),
    field("late p50, p99, max", "time", "With --self-test: how late packets left the emulator."),
];

const WITHHELD: &[Field] = &[field(
    "withheld",
    "answers",
    "Answers kept back from clients whose address may be forged: over the byte budget, or over the rate of their prefix.",
)];

const FORWARDER: &[Field] = &[
    TIME,
    field("in", "packets", "Packets that came in, dropped ones included."),
    field("out", "packets", "Packets that left."),
    field("rate", "pps", "Packets that left, per second."),
    field(
        "dropped",
        "packets",
        "Packets dropped, by place: the receive ring, a rule, the queue, the output.",
    ),
    field("a to b", "packets", "Between interfaces: received at the first and sent at the second."),
    field("b to a", "packets", "Between interfaces: received at the second and sent at the first."),
    field("from clients", "packets", "Of a relay: received from clients and sent to the server."),
    field("to clients", "packets", "Of a relay: received from the server and sent to clients."),
    MINIMUM,
    field("latency", "time", "From the kernel's receive time to having been sent."),
    field("polls", "times", "Polls of a side, and those that found nothing."),
    field("per poll", "packets", "The mean number of packets that a poll found."),
    WAKE_UPS,
    field("mode switches", "times", "Changes between polls and wake-ups."),
    CPU,
    field("CPU limited", "times", "Periods of 10 ms in which --cpu-limit shut the input."),
    field("clients", "clients", "Of a relay: clients at the end, and all there have been."),
    field("refused", "packets", "Packets that went no further, by reason."),
    field("misdirected", "datagrams", "Datagrams from the upstream, from the relay itself, or from port 0."),
    field(
        "upstream refused",
        "times",
        "Times that the other end, or a host on the way, said that it is not there.",
    ),
    field("senders told", "packets", "Packets whose senders got an ICMP message, and those beyond its rate."),
    field("made here", "frames", "Answers and probes that the forwarder sent itself, and those lost."),
    field(
        "outages",
        "times",
        "Times that an interface was switched off or lost its carrier, and loops found.",
    ),
    field("line", "", "A rule's line in the file of rules."),
    field("matched", "packets", "Packets that the rule decided."),
    field("rule", "", "The rule itself."),
];

const CAPTURED: &[Field] = &[
    TIME,
    field("rate", "pps", "Frames per second."),
    field("volume", "bytes", "Bytes of the frames."),
    field("captured", "frames", "Frames in the file, their bytes, and the files written."),
    field(
        "dropped",
        "frames",
        "Frames not in the file, by place: the interface, the ring, the queue, the output.",
    ),
    MINIMUM,
    field("delay", "time", "From the kernel's receive time until the frame was in the file."),
    CPU,
    WAKE_UPS,
    field("feedback", "times", "With --queue: how often the input was shut, and opened by time-out."),
    field("outages", "times", "Times that the interface was found switched off."),
    field("ring renewals", "times", "Times that the ring was made again because a frame had stopped it."),
    field(
        "ended by",
        "",
        "Why it ended: signal, duration, count, interface (it is gone) or output (it cannot be written).",
    ),
];

const PROBE: &[Field] = &[
    TIME,
    field("CPU", "", "The CPU's number."),
    field("intervals", "intervals", "Intervals between trigger states, without those of idleness."),
    field("idle", "share", "The share of time that the CPU was idle."),
    field(
        "mean, p50, stddev, min, p99, p99.9, max",
        "time",
        "Of the intervals: mean and maximum are exact, the rest within an eighth.",
    ),
    field("over 100 µs", "share", "Intervals longer than 100 µs."),
    field("over 150 µs", "share", "Intervals longer than 150 µs."),
    field("window", "time", "The medians of windows of this length."),
    field("source", "", "What ended the interval."),
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

const COMPARISON: &[Field] = &[
    field(
        "method",
        "",
        "The same stream by each method of send --timer, from a loop that serves an echo server and from an idle one.",
    ),
    field("rate kept", "share", "The rate achieved, of what was asked for."),
    field("back to back", "share", "Gaps shorter than half the target gap, as a share of all gaps."),
    field("longest burst", "packets", "The most packets in a row joined by such gaps."),
    field("gap p50, p99, p99.9", "time", "Time between arrivals, by the kernel's receive timestamps."),
    field("late p50, p99", "time", "Lateness of departures."),
    CPU,
    field(
        "work kept",
        "share",
        "Throughput retained: requests answered beside the pacing, of what the same loop answers without it.",
    ),
    field(
        "useful range",
        "time",
        "The intervals between events for which softtimers is useful on this machine.",
    ),
    field("gaps", "", "With --verbose: consecutive gaps from the middle of the run, a bar each."),
    field("late over 1 ms", "", "With --verbose: departures by cause, with the longest pause."),
    field("clock checks", "time", "With --verbose: the mean time between two checks of the clock."),
    field("works here", "", "Kernel features that were used once and worked."),
    field("not seen to work", "", "Kernel features that did not work for this user; --verbose says why."),
];

const COSTS: &[Field] = &[
    field("clock read", "time", "Reading the clock."),
    field("TSC read", "time", "Reading the CPU's own counter as a clock."),
    field("empty check", "time", "A trigger state at which nothing is due, the clock read included."),
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
        "For how long a computing thread keeps the CPU from another one, and what the kernel states.",
    ),
    MINIMUM,
    field(
        "late, usual slack",
        "time",
        "Lateness of a sleep of 200 µs with the thread's timer slack as it was.",
    ),
    field("late, slack 1 ns", "time", "The same with a timer slack of 1 ns."),
];

const NOISE: &[Field] = &[
    field("calibrated", "time", "The minimum over many runs of the computation that a phase consists of."),
    MINIMUM,
    field("phase", "time", "Time that phases took."),
    field("delayed", "share", "Phases longer than the threshold."),
    field("over", "", "Multiples of the median phase."),
    field("phases", "share", "Phases longer than this multiple."),
    field("cause", "", "Why delayed phases were delayed."),
    field("delayed phases", "phases", "Delayed phases of this cause."),
    field("in all, longest", "time", "Delay by this cause: all together, and the longest."),
    field(
        "interrupts",
        "per phase",
        "Interrupts in a delayed phase, and in another one; by line of /proc/interrupts.",
    ),
    field(
        "nodes",
        "nodes",
        "A bulk-synchronous job on so many such machines, which waits for the slowest in each phase.",
    ),
    field(
        "slowdown",
        "times",
        "How many times as long a phase of the job takes as the median phase of one node.",
    ),
    field("undelayed", "share", "Phases of the job in which no node is delayed."),
    field(
        "would do",
        "probability",
        "The probability of delay per node at which the job is delayed no more than one node is.",
    ),
];

const RATES: &[Field] = &[
    field("timer", "", "With --rates: a periodic tick of this rate, or smart timers with as much slack."),
    field("wake-ups", "1/s", "With --rates: wake-ups per second beside the computation."),
    field("CPU", "share", "With --rates: CPU time of the timer thread, of one core."),
    field("work kept", "share", "With --rates: throughput retained by the computation beside it."),
    field("each costs", "time", "With --rates: what the computation lost, for each wake-up."),
    field("late p50, max", "time", "With --rates: from due to run."),
    field(
        "idle wake-ups, CPU, deepest",
        "1/s, share",
        "With --rates, on an idle CPU: the same, and the share of time in the deepest sleep state the kernel knows.",
    ),
    field("watts", "W", "With --rates: power of all packages on an idle CPU."),
];

const OVERLOAD: &[Field] = &[
    field("work", "time", "Cost of the filter per datagram, before and after the trials."),
    field("MLFRR", "pps", "The maximum loss-free receive rate, confirmed by a longer trial."),
    field("capacity", "pps", "The most that was delivered in a trial of the search."),
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
    field("timer", "share", "The share of its times that a 20 ms timer of the loop fired."),
    CPU,
    field("else", "share", "The share of a CPU that other work got beside the receiver."),
    field(
        "overload",
        "",
        "Behaviour under overload: ideal, stable or livelock, and what is delivered at the highest rate.",
    ),
    field("20 ms timer", "share", "The least share of its times that the timer fired, of all points."),
    field(
        "no progress",
        "share",
        "The largest share of a point's time with input and no progress for 10 ms.",
    ),
];

const REPORT: &[Field] = &[];

/// The fields below every report.
pub(crate) const EVERYWHERE: &[Field] = &[
    field("inconclusive", "", "Why the figures prove nothing."),
    field("random", "", "The seed that repeats what was random."),
    field("note", "", "What did not work as asked, and what was done instead."),
    field(
        "CPU taken meanwhile",
        "share",
        "CPU time that the host and other programs took during the run, of all CPUs.",
    ),
    field("sandbox", "", "The user it became, the capabilities it kept and what confines it."),
];
