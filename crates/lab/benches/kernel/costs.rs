//! Tables I to III: what an event costs a web server, by the throughput that it loses; and Table XIII: what deadlines cost.
//!
//! A handler does nothing, or touches fifty cache lines, another page of four each time. The paper's also had two lines of
//! instructions on pages of their own; where a BPF program's instructions lie is the kernel's affair.

use std::time::Duration;

use softtimers_bpf::{Events, Facility, Source, Timers};
use softtimers_lab::bench::Done;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::{Cell, Table};

use crate::contest::{Beside, Came, Programs, contest, counters};
use crate::server::Server;
use crate::{Bench, skipped};

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

pub(crate) fn run(bench: &Bench) -> Done<Vec<Table>> {
    let Some(server) = Server::start(bench, 1)? else {
        return Ok(vec![skipped("costs", "this needs nginx and wrk")]);
    };
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
    let mut table = Table::new("costs", &[&[("beside nginx", 0)], &COLUMNS[..]].concat());
    for (name, came) in
        std::iter::once(("nothing", &alone)).chain(came.iter().map(|(name, came)| (*name, came)))
    {
        table.rows.push(std::iter::once(name.into()).chain(cells(came)).collect());
    }
    if let Err(why) = counters(bench.server.number() as u32) {
        table.note(format!("misses of the caches are not counted: {why}"));
    }
    bars(&came).into_iter().for_each(|bar| table.bar(bar));
    Ok(vec![table])
}

fn bars(came: &[(&str, Came)]) -> Vec<Bar> {
    let of = |wanted: &str| came.iter().find(|(name, _)| *name == wanted).map(|(_, came)| came);
    let asked = [(METER[0], 0.85), (METER[1], 0.97), (SOFT, 0.93)];
    let kept = |name| of(name).and_then(Came::kept).filter(|kept| kept.interval.is_some());
    let mut bars: Vec<Bar> = asked
        .into_iter()
        .map(|(name, bar)| Bar::at_least(format!("kept: {name}"), bar, kept(name)))
        .collect();
    let soft = came.iter().filter(|(name, came)| name.starts_with("soft") && came.by_backup().is_some());
    bars.extend(soft.map(|(name, came)| by_backup(name, came)));
    let cost = |name: &str| of(name).and_then(Came::cost);
    // Where the machine drifted more than the events cost there is nothing to compare.
    let told = |name: &str| cost(name).filter(|&cost| cost > 0.0);
    let beside = told(SOFT).zip(told("bpf_timer, null, 20 us"));
    let later = told("bpf_timer, 50 lines, 20 us").zip(told("bpf_timer, 50 lines, 10 us"));
    bars.push(Bar::at_most(
        "an event's cost, null, 20 us: soft, three sources, against bpf_timer",
        1.0,
        beside.map(|(soft, timer)| soft / timer),
    ));
    bars.push(Bar::at_least(
        "bpf_timer, 50 lines: an event's cost at 20 us against 10 us",
        1.0,
        later.map(|(later, sooner)| later / sooner),
    ));
    bars
}

/// Of each row with a deadline of 1 ms, whatever its events do.
fn by_backup(name: &str, came: &Came) -> Bar {
    let percent = came.by_backup().map(|share| share * 100.0);
    Bar::at_most(format!("%, fired by the backup of 1 ms: {name}"), 0.1, percent)
}

const COLUMNS: [(&str, usize); 11] = [
    ("windows", 0),
    ("requests kept", 3),
    ("events/s", 0),
    ("µs an event costs", 2),
    ("past the deadline %", 3),
    ("by the backup %", 3),
    ("backups/s", 0),
    ("mean lateness µs", 1),
    ("misses a request: l1d", 1),
    ("l1i", 1),
    ("itlb", 1),
];

fn cells(came: &Came) -> [Cell; COLUMNS.len()] {
    let percent = |share: Option<f64>| Cell::from(share.map(|share| share * 100.0));
    let missed = came.missed();
    let missed = |cache: usize| Cell::from(missed.map(|missed| missed[cache]));
    [
        (came.windows() as f64).into(),
        came.kept().into(),
        came.events_per_second().into(),
        came.cost().into(),
        percent(came.expired()),
        percent(came.by_backup()),
        came.backups_per_second().into(),
        came.late_mean().into(),
        missed(0),
        missed(1),
        missed(2),
    ]
}

/// Events 10 µs after the one before, with a deadline so long after they are due.
pub(crate) fn deadlines(bench: &Bench) -> Done<Vec<Table>> {
    let Some(server) = Server::start(bench, 1)? else {
        return Ok(vec![skipped("deadlines", "this needs nginx and wrk")]);
    };
    let mut rows = vec![];
    for (sources, which) in [("three sources", BY_THREE), ("all sources", BY_ALL)] {
        for deadline in DEADLINES.map(Some).into_iter().chain([None]) {
            let name = deadline.map_or("none".to_owned(), |deadline| format!("{deadline} us"));
            rows.push((sources, name, Beside::Events(which, events(bench, 10, deadline, false))));
        }
    }
    let besides: Vec<&Beside> = rows.iter().map(|(_, _, beside)| beside).collect();
    let (came, _) = contest(bench, &server, &mut programs()?, bench.rounds, &besides)?;
    let mut table = Table::new("deadlines", &[&[("sources", 0), ("deadline", 0)], &COLUMNS[..]].concat());
    for ((sources, name, _), came) in rows.iter().zip(&came) {
        table.rows.push([(*sources).into(), name.as_str().into()].into_iter().chain(cells(came)).collect());
        if name == "1000 us" {
            table.bar(by_backup(&format!("deadlines, {sources}, 10 us"), came));
        }
    }
    for (name, of) in
        [("three", &came[..DEADLINES.len()]), ("all", &came[DEADLINES.len() + 1..][..DEADLINES.len()])]
    {
        let past: Vec<f64> = of.iter().filter_map(Came::expired).collect();
        let last = past.last().copied().zip(past.first().copied()).map(|(last, first)| last / first);
        let figure = format!("{name} sources: past a deadline of 1,000 us against 10 us");
        table.bar(Bar::at_most(figure, 1.0, last));
    }
    Ok(vec![table])
}
