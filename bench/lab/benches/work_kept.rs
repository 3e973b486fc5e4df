//! The throughput that a saturated loop retains next to a paced flow, and the flow's lateness, by each way to notice a
//! due time: `cargo bench --manifest-path bench/Cargo.toml --bench work_kept [-- batch-4 --seconds 60]`. Throughput is relative to a
//! plain epoll loop without any timers.
//!
//! Turns take 10 ms in one process, because consecutive runs would compare the machine with itself a second earlier.
//! Each round has its own ratio; the median and the quartiles of the ratios are reported. An interruption longer than a
//! round spoils only a few of them. A turn begins on schedule, so the tail of the lateness has separate sections, with
//! turns long enough for a stall and its catch-up. Only `soft` catches up with trains; the other loops stay as simple
//! as they are.
//!
//! The sender has a CPU of its own; the receiver, on the other one, reads every 2 ms, like a busy receiver that does
//! not sleep between two datagrams. The clients of the echo server spin there.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use softtimers::Rate;
use softtimers_contest::turns::{self, Contest, engine};
use softtimers_lab::bench::{self, Done, Section};
use softtimers_load::send::SendFigures;
use softtimers_load::turns::Contender;
use softtimers_load::work::Work;
use softtimers_measure::estimate::Estimate;
use softtimers_measure::stats::Stats as _;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::{Cell, Table};

const COLUMNS: [(&str, usize); 11] = [
    ("echo batch", 0),
    ("engine", 0),
    ("packets/s", 0),
    ("of the rate", 4),
    ("work kept", 3),
    ("lower quartile", 3),
    ("upper quartile", 3),
    ("late p50 µs", 1),
    ("late p99 µs", 1),
    ("back to back", 5),
    ("longest burst", 0),
];

/// The ways to notice a due time, in the order of the table.
const ENGINES: [&str; 8] = ["soft", "loop", "loop-inside", "spin", "pwait2", "timerfd", "signal", "thread"];
const PER_SECOND: f64 = 25_000.0;
/// From here on a group of requests takes longer than the interval: one packet at each clock check can't hold the rate.
const ABOVE_THE_GAPS: usize = 16;
/// Long enough for a stall of 10 ms and its catch-up.
const LONG_TURN: Duration = Duration::from_millis(300);

/// The sections, by the requests that the echo server answers in a group.
const SECTIONS: [Section<Duration>; 8] = [
    ("batch-1", |time| kept(1, *time)),
    ("batch-4", |time| kept(4, *time)),
    ("batch-16", |time| kept(16, *time)),
    ("batch-64", |time| kept(64, *time)),
    ("tail-1", |time| tail(1, *time)),
    ("tail-4", |time| tail(4, *time)),
    ("tail-16", |time| tail(16, *time)),
    ("tail-64", |time| tail(64, *time)),
];

fn main() -> ExitCode {
    bench::main("work_kept", &SECTIONS, |asked| Ok(asked.seconds(2)))
}

/// All engines, in turns of 10 ms, and the loop without pacing.
fn kept(batch: usize, time: Duration) -> Done<Vec<Table>> {
    let flow = |at: usize| Contender::Flow(engine(ENGINES[at]));
    let contenders = [Contender::Nobody].into_iter().chain((0..ENGINES.len()).map(flow));
    let contenders: [Contender; 9] = std::array::from_fn({
        let all: Vec<Contender> = contenders.collect();
        move |at| all[at]
    });
    let contest = run(batch, contenders, turns::TURN, time)?;
    let mut table = contest.table(&format!("kept-{batch}"), &COLUMNS);
    for (at, name) in ENGINES.iter().enumerate() {
        rows(&mut table, &contest, (batch, name), at + 1, Some(0));
    }
    let kept = |at: usize| contest.over(|round| Some(round[at].work_rate / round[0].work_rate));
    let busy = |what: &str| format!("busy, echo batch {batch}: {what}");
    table.bar(Bar::at_least(busy("work kept of the loop without pacing"), 0.93, kept(1)));
    // Where `loop` cannot hold the rate, it gains throughput from the packets that it does not send.
    if batch < ABOVE_THE_GAPS {
        let ratio = contest.over(|round| Some(round[1].work_rate / round[2].work_rate));
        table.bar(Bar::at_least(busy("work kept, against `loop`'s"), 1.0, ratio));
    }
    Ok(vec![table])
}

/// The two that check their clocks inside the loop, in turns with room for stalls.
fn tail(batch: usize, time: Duration) -> Done<Vec<Table>> {
    let contenders = [Contender::Flow(engine("soft")), Contender::Flow(engine("loop"))];
    let contest = run(batch, contenders, LONG_TURN, time)?;
    let mut table = contest.table(&format!("tail-{batch}"), &COLUMNS);
    for (at, name) in ["soft", "loop"].into_iter().enumerate() {
        rows(&mut table, &contest, (batch, name), at, None);
    }
    let soft = figures(&contest, 0);
    // Per round, since one stall would decide the p99 of all turns together.
    let ratio = contest.over(|[soft, own]| Some(soft.late_p99_ns? as f64 / own.late_p99_ns? as f64));
    let busy = |what: &str| format!("busy, echo batch {batch}: {what}");
    let disturbed = contest.disturbed.is_some();
    table.bar(Bar::at_most(busy("p99 of lateness over `loop`'s"), 1.1, ratio).unless(disturbed));
    if batch < ABOVE_THE_GAPS {
        table.bar(Bar::at_most(busy("back to back"), 0.001, soft.gaps.back_to_back).unless(disturbed));
    } else {
        // A short turn ends before the packets due in its last tenth of a millisecond.
        let rate = contest.over(|round| Some(round[0].event_rate / PER_SECOND));
        table.bar(Bar::at_least(busy("of the rate"), 0.99, rate));
        let rounds = contest.rounds.len() as f64;
        let on_rate = contest.rounds.iter().filter(|round| round[0].event_rate >= 0.99 * PER_SECOND).count();
        let share = (rounds > 0.0).then(|| on_rate as f64 / rounds);
        table.bar(Bar::at_least(busy("rounds with 0.99 of the rate"), 0.95, share).unless(disturbed));
    }
    Ok(vec![table])
}

fn run<const N: usize>(
    batch: usize,
    contenders: [Contender; N],
    turn: Duration,
    time: Duration,
) -> Done<Contest<N>> {
    let rate = Rate::every(Duration::from_micros(40))?;
    turns::contest_received(rate, Work::Echo { batch }, contenders, turn, time)
}

/// Returns the figures of the contender at this index, over all of its turns.
fn figures<const N: usize>(contest: &Contest<N>, at: usize) -> SendFigures {
    contest.stats[at].figures(Duration::from_secs(1))
}

/// Returns the row of the contender at `at`; its throughput is relative to that of the one at `base`.
fn rows<const N: usize>(
    table: &mut Table,
    contest: &Contest<N>,
    (batch, name): (usize, &str),
    at: usize,
    base: Option<usize>,
) {
    let figures = figures(contest, at);
    let rate = contest.over(|round| Some(round[at].event_rate));
    let kept = base.and_then(|base| contest.over(|round| Some(round[at].work_rate / round[base].work_rate)));
    let quartile = |which: usize| kept.map(|kept: Estimate| kept.quartiles[which]);
    let micros = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e3);
    let burst = figures.gaps.longest_burst.map(|burst| burst as f64);
    table.row::<11>([
        batch.to_string().into(),
        format!("`{name}`").into(),
        rate.into(),
        rate.map(|rate| rate.median / PER_SECOND).into(),
        kept.into(),
        quartile(0).into(),
        quartile(1).into(),
        micros(figures.late_ns.p50).into(),
        micros(figures.late_ns.p99).into(),
        figures.gaps.back_to_back.into(),
        Cell::from(burst),
    ]);
}
