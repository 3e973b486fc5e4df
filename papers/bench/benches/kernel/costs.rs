//! Tables I to III: what an event costs a web server, by the throughput that it loses; and Table XIII: what deadlines cost.
//!
//! A handler does nothing, or touches fifty cache lines, rotating among four pages. The paper's also had two lines of
//! instructions on pages of their own; the kernel decides where a BPF program's instructions are.

use std::time::Duration;

use softtimers_bpf::{Events, Facility, Source, Timers};
use softtimers_measure::failure::Failure;
use softtimers_papers_bench::bench::Done;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Measured;
use softtimers_trials::result::Table;

use crate::Bench;
use crate::contest::{ALONE, BY_BACKUP, Beside, COLUMNS, COST, KEPT, PAST, Programs, Row, contest, counters};
use crate::server::Server;

/// The time from an event to the next one's due time, in microseconds; zero: at each trigger state.
const PERIODS: [u64; 5] = [0, 10, 20, 50, 100];
/// The deadlines of Table XIII.
const DEADLINES: [u64; 7] = [10, 20, 50, 100, 200, 500, 1_000];

/// Names and indices of facilities with these trigger states.
const FACILITIES: [(&str, usize); 2] = [("three sources", 0), ("all sources", 1)];

/// A web server with its load, and the programs.
fn setting(bench: &Bench) -> Done<(Server, Programs)> {
    let server = Server::start(bench, 1)?.ok_or_else(|| Failure::not_possible("this needs nginx and wrk"))?;
    let facilities = [Facility::load(&Source::DEFAULT)?, Facility::load(&Source::ALL)?];
    Ok((server, Programs { facilities, timers: Timers::load()? }))
}

fn events(bench: &Bench, period: u64, slack: Option<u64>, touches: bool) -> Events {
    let processors = Some(vec![bench.server.number() as u32]);
    let period = Duration::from_micros(period);
    Events { period, slack: slack.map(Duration::from_micros), count: 1, processors, touches }
}

/// Rows with bars of a few percent, which take many windows.
const BARRED: [(&str, f64); 3] =
    [("the meter, all sources", 0.85), ("the meter, three sources", 0.97), (SOFT, 0.93)];
const SOFT: &str = "soft, three sources, null, 20 us";

fn rows(bench: &Bench) -> Vec<Row> {
    let mut rows = vec![
        (BARRED[0].0.to_owned(), Beside::Meter(&Source::ALL)),
        (BARRED[1].0.to_owned(), Beside::Meter(&Source::DEFAULT)),
    ];
    for (name, which) in FACILITIES {
        let none = Events { count: 0, ..events(bench, 100, None, false) };
        rows.push((format!("soft, {name}, only the gate"), Beside::Events(which, none)));
    }
    for (touches, what) in [(false, "null"), (true, "50 lines")] {
        for period in PERIODS {
            let every = if period == 0 { "each trigger state".to_owned() } else { format!("{period} us") };
            let soft = events(bench, period, Some(1_000), touches);
            let soft = FACILITIES.map(|(name, which)| {
                (format!("soft, {name}, {what}, {every}"), Beside::Events(which, soft.clone()))
            });
            rows.extend(soft);
            if period > 0 {
                let timer = events(bench, period, Some(0), touches);
                rows.push((format!("bpf_timer, {what}, {every}"), Beside::Timer(timer)));
            }
        }
    }
    rows
}

/// Returns a table of the rows with their own bars, and one of the others.
pub(crate) fn run(bench: &Bench) -> Done<Vec<Table>> {
    let (server, mut programs) = setting(bench)?;
    let has_bar = |(name, _): &Row| BARRED.iter().any(|barred| barred.0 == name);
    let (barred, others): (Vec<Row>, Vec<Row>) = rows(bench).into_iter().partition(has_bar);
    let pairs = contest(bench, &server, &mut programs, bench.pairs, &barred)?;
    let measured = contest(bench, &server, &mut programs, bench.rounds, &others)?;
    let mut tables = [("costs, rows with a bar", &barred, &pairs), ("costs", &others, &measured)]
        .map(|(key, rows, measured)| table(key, rows, measured));
    for (name, least) in BARRED {
        let kept = pairs.estimate(name, KEPT).filter(|kept| kept.interval.is_some());
        tables[0].bar(Bar::at_least(format!("kept: {name}"), least, kept));
    }
    // If the machine drifted more than the events cost, there is nothing to compare.
    let told = |measured: &Measured, name: &str| measured.median(name, COST).filter(|&cost| cost > 0.0);
    let timer = |every: &str| told(&measured, &format!("bpf_timer, {every}"));
    let beside = told(&pairs, SOFT).zip(timer("null, 20 us")).map(|(soft, timer)| soft / timer);
    let later = timer("50 lines, 20 us").zip(timer("50 lines, 10 us")).map(|(later, sooner)| later / sooner);
    let figure = "an event's cost, null, 20 us: soft, three sources, against bpf_timer";
    tables[1].bar(Bar::at_most(figure, 1.0, beside));
    tables[1].bar(Bar::at_least("bpf_timer, 50 lines: an event's cost at 20 us against 10 us", 1.0, later));
    if let Err(why) = counters(bench.server.number() as u32) {
        tables[1].note(format!("misses of the caches are not counted: {why}"));
    }
    Ok(tables.into())
}

/// Returns the table of these rows and the server alone; few events with a deadline of 1 ms may come from the backup.
fn table(key: &str, rows: &[Row], measured: &Measured) -> Table {
    let names = std::iter::once(ALONE).chain(rows.iter().map(|(name, _)| name.as_str()));
    let mut table = Table::of(key, measured, names, &COLUMNS);
    for (name, beside) in rows {
        let deadline = Some(Duration::from_millis(1));
        if matches!(beside, Beside::Events(_, events) if events.slack == deadline) {
            let figure = format!("%, fired by the backup of 1 ms: {name}");
            table.bar(Bar::at_most(figure, 0.1, measured.estimate(name, BY_BACKUP)));
        }
    }
    table
}

/// Events 10 µs after the one before, with this deadline after their due times.
pub(crate) fn deadlines(bench: &Bench) -> Done<Vec<Table>> {
    let (server, mut programs) = setting(bench)?;
    let name = |sources: &str, deadline: Option<u64>| {
        let deadline = deadline.map_or("none".to_owned(), |deadline| format!("{deadline} us"));
        format!("{sources}, deadline {deadline}")
    };
    let deadlines = || DEADLINES.map(Some).into_iter().chain([None]);
    let rows: Vec<Row> = FACILITIES
        .into_iter()
        .flat_map(|(sources, which)| deadlines().map(move |deadline| (sources, which, deadline)))
        .map(|(sources, which, deadline)| {
            (name(sources, deadline), Beside::Events(which, events(bench, 10, deadline, false)))
        })
        .collect();
    let measured = contest(bench, &server, &mut programs, bench.rounds, &rows)?;
    let mut table = table("deadlines", &rows, &measured);
    for (sources, _) in FACILITIES {
        let past = measured.ratio(PAST, &name(sources, Some(1_000)), &name(sources, Some(10)));
        table.bar(Bar::at_most(format!("{sources}: past a deadline of 1,000 us against 10 us"), 1.0, past));
    }
    Ok(vec![table])
}
