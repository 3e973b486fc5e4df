//! Tables I to III: what an event costs a web server, by the throughput that it loses; and Table XIII: what deadlines cost.
//!
//! A handler does nothing, or touches fifty cache lines, another page of four each time. The paper's also had two lines of
//! instructions on pages of their own; where a BPF program's instructions lie is the kernel's affair.

use std::time::Duration;

use softtimers_bench::pacing::record::{Check, show};
use softtimers_bpf::{Events, Facility, Source, Timers};

use crate::contest::{Beside, Came, Programs, contest, counters};
use crate::server::Server;
use crate::{Bench, Done};

/// When an event is due after the one before, in microseconds; zero: at each trigger state.
const PERIODS: [u64; 5] = [0, 10, 20, 50, 100];
/// Table XIII's.
const DEADLINES: [u64; 7] = [10, 20, 50, 100, 200, 500, 1_000];

/// The places of facilities with these trigger states.
const BY_THREE: usize = 0;
const BY_ALL: usize = 1;

fn programs() -> Done<Programs> {
    Ok(Programs {
        facilities: [Facility::load(&Source::DEFAULT)?, Facility::load(&Source::ALL)?],
        timers: Timers::load()?,
    })
}

fn server(bench: &Bench) -> Done<Option<Server>> {
    let server = Server::start(bench, 1)?;
    if server.is_none() {
        println!("skipped: this needs nginx and wrk");
    }
    Ok(server)
}

fn events(bench: &Bench, period: u64, slack: Option<u64>, touches: bool) -> Events {
    let processors = Some(vec![bench.server.number() as u32]);
    let period = Duration::from_micros(period);
    Events { period, slack: slack.map(Duration::from_micros), count: 1, processors, touches }
}

/// What goes on beside the server, and its name.
type Row = (String, Beside);

/// The rows whose bars are a few percent: only many windows tell.
const METER: [&str; 2] = ["the meter, all sources", "the meter, three sources"];
const SOFT: &str = "soft, three sources, null, 20 us";

fn rows(bench: &Bench) -> Vec<Row> {
    let meters = [Source::ALL.to_vec(), Source::DEFAULT.to_vec()].map(Beside::Meter);
    let mut rows: Vec<Row> = METER.iter().map(ToString::to_string).zip(meters).collect();
    for (name, which) in [("three sources", BY_THREE), ("all sources", BY_ALL)] {
        let none = Events { count: 0, ..events(bench, 100, None, false) };
        rows.push((format!("soft, {name}, only the gate"), Beside::Events(which, none)));
    }
    for touches in [false, true] {
        let what = if touches { "50 lines" } else { "null" };
        for period in PERIODS {
            let every = if period == 0 { "each trigger state".to_owned() } else { format!("{period} us") };
            let soft = events(bench, period, Some(1_000), touches);
            rows.push((
                format!("soft, three sources, {what}, {every}"),
                Beside::Events(BY_THREE, soft.clone()),
            ));
            rows.push((format!("soft, all sources, {what}, {every}"), Beside::Events(BY_ALL, soft)));
            if period > 0 {
                let timer = events(bench, period, Some(0), touches);
                rows.push((format!("bpf_timer, {what}, {every}"), Beside::Timer(timer)));
            }
        }
    }
    rows
}

pub(crate) fn run(bench: &mut Bench) -> Done<()> {
    println!("\n### What events and the meter cost nginx (Tables I to III)\n");
    let Some(server) = server(bench)? else { return Ok(()) };
    let has_bar = |(name, _): &Row| METER.contains(&name.as_str()) || name == SOFT;
    let (barred, others): (Vec<Row>, Vec<Row>) = rows(bench).into_iter().partition(has_bar);
    let mut programs = programs()?;
    let mut came: Vec<(&str, Came)> = vec![];
    let mut alone = Came::default();
    for (rows, rounds) in [(&barred, bench.pairs), (&others, bench.rounds)] {
        let besides: Vec<&Beside> = rows.iter().map(|(_, beside)| beside).collect();
        let (these, without) = contest(bench, &server, &mut programs, rounds, &besides)?;
        came.extend(rows.iter().map(|(name, _)| name.as_str()).zip(these));
        alone = without;
    }
    if let Err(why) = counters(bench.server.number() as u32) {
        println!("misses of the caches are not counted: {why}\n");
    }
    println!(
        "| beside nginx | windows | requests kept, quartiles | events/s | cost of an event | past the deadline | by the backup | backups/s | mean lateness | misses a request: l1d, l1i, itlb |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    println!("| nothing | {} | 1 | – | – | – | – | – | – | {} |", alone.windows(), misses(&alone));
    for (name, came) in &came {
        println!("| {name} | {} | {} |", columns(came), misses(came));
    }
    check(bench, &came);
    Ok(())
}

fn check(bench: &mut Bench, came: &[(&str, Came)]) {
    let of = |wanted: &str| came.iter().find(|(name, _)| *name == wanted).map(|(_, came)| came);
    let bars = [(METER[0], 0.85), (METER[1], 0.97), (SOFT, 0.93)];
    bench.checks.extend(bars.map(|(name, bar)| {
        let kept = of(name).and_then(Came::kept_within);
        Check::at_least(format!("kept: {name}"), bar, None).of_median(kept)
    }));
    let soft = came.iter().filter(|(name, came)| name.starts_with("soft") && came.by_backup().is_some());
    bench.checks.extend(soft.map(|(name, came)| by_backup(name, came)));
    let cost = |name: &str| of(name).and_then(Came::cost);
    // Where the machine drifted more than the events cost there is nothing to compare.
    let told = |name: &str| cost(name).filter(|&cost| cost > 0.0);
    let beside = told(SOFT).zip(told("bpf_timer, null, 20 us"));
    let later = told("bpf_timer, 50 lines, 20 us").zip(told("bpf_timer, 50 lines, 10 us"));
    bench.checks.extend([
        Check::at_most(
            "an event's cost, null, 20 us: soft, three sources, against bpf_timer",
            1.0,
            beside.map(|(soft, timer)| soft / timer),
        ),
        Check::at_least(
            "bpf_timer, 50 lines: an event's cost at 20 us against 10 us",
            1.0,
            later.map(|(later, sooner)| later / sooner),
        ),
    ]);
}

/// Of each row with a deadline of 1 ms, whatever its events do.
fn by_backup(name: &str, came: &Came) -> Check {
    let percent = came.by_backup().map(|share| share * 100.0);
    Check::at_most(format!("%, fired by the backup of 1 ms: {name}"), 0.1, percent)
}

/// For each request, or a dash where they are not counted.
fn misses(came: &Came) -> String {
    came.missed().map_or("–".to_owned(), |missed| missed.map(|one| format!("{one:.1}")).join(", "))
}

/// Windows, kept, rate, cost, deadline, backup, lateness.
fn columns(came: &Came) -> String {
    let [low, median, high] = came.kept();
    format!(
        "{} | {median:.3} ({low:.3} to {high:.3}) | {:.0} | {} us | {}% | {}% | {:.0} | {} us",
        came.windows(),
        came.events_per_second(),
        show(came.cost(), 2),
        show(came.expired().map(|share| share * 100.0), 3),
        show(came.by_backup().map(|share| share * 100.0), 3),
        came.backups_per_second(),
        show(came.late_mean(), 1)
    )
}

/// Events 10 µs after the one before, with a deadline so long after they are due.
pub(crate) fn deadlines(bench: &mut Bench) -> Done<()> {
    println!("\n### What deadlines cost nginx, events 10 us after the one before (Table XIII)\n");
    let Some(server) = server(bench)? else { return Ok(()) };
    let mut rows = vec![];
    for (sources, which) in [("three sources", BY_THREE), ("all sources", BY_ALL)] {
        for deadline in DEADLINES.map(Some).into_iter().chain([None]) {
            let name = deadline.map_or("none".to_owned(), |deadline| format!("{deadline} us"));
            rows.push((sources, name, Beside::Events(which, events(bench, 10, deadline, false))));
        }
    }
    let besides: Vec<&Beside> = rows.iter().map(|(_, _, beside)| beside).collect();
    let (came, _) = contest(bench, &server, &mut programs()?, bench.rounds, &besides)?;
    println!(
        "| sources | deadline | windows | requests kept, quartiles | events/s | cost of an event | past it | by the backup | backups/s | mean lateness |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for ((sources, name, _), came) in rows.iter().zip(&came) {
        println!("| {sources} | {name} | {} |", columns(came));
        if name == "1000 us" {
            bench.checks.push(by_backup(&format!("deadlines, {sources}, 10 us"), came));
        }
    }
    for (name, of) in
        [("three", &came[..DEADLINES.len()]), ("all", &came[DEADLINES.len() + 1..][..DEADLINES.len()])]
    {
        let past: Vec<f64> = of.iter().filter_map(Came::expired).collect();
        let last = past.last().copied().zip(past.first().copied()).map(|(last, first)| last / first);
        bench.checks.push(Check::at_most(
            format!("{name} sources: past a deadline of 1,000 us against 10 us"),
            1.0,
            last,
        ));
    }
    Ok(())
}
