//! The table: requests/s by who serves, with connections that are kept and with one for each request.

use std::error::Error;

use softtimers_bench::rounds::{Round, Section, in_turn};
use softtimers_cli::ticks::Ticks;

use super::contender::Contender;
use super::load::Outcome;
use super::{Effort, Found};

/// Table XII's quotas, between the plain server and the slower one.
const CONTENDERS: [Contender; 8] = [
    Contender::Epoll,
    Contender::Polled(1),
    Contender::Polled(2),
    Contender::Polled(5),
    Contender::Polled(10),
    Contender::Polled(15),
    Contender::Spin,
    Contender::Processes,
];

pub(crate) fn kept(effort: Effort) -> Found {
    table(effort, true)
}

pub(crate) fn closed(effort: Effort) -> Found {
    table(effort, false)
}

fn table(effort: Effort, keep_alive: bool) -> Found {
    let kind = if keep_alive { "kept" } else { "closed" };
    let (load, reached) = saturating(effort, keep_alive)?;
    let mut section = rounds(effort, keep_alive, load)?;
    section.notes.push(format!(
        "- {}: the plain server was busy for {:.1}% when this was chosen",
        said(load),
        100.0 * reached
    ));
    conclude(&mut section, kind);
    confirm(&mut section, effort, keep_alive, load)?;
    if load.1 > 0 {
        // Work makes a look a smaller part of an answer: what looks cost is to be seen without.
        let bare = rounds(effort, keep_alive, (load.0, 0))?;
        section.add_part("without_work", format!("Without that work, {}", said((load.0, 0))), bare);
    }
    Ok(section)
}

fn said((connections, work): (usize, u64)) -> String {
    format!("{connections} connections, {work} µs of work an answer")
}

/// All contenders, another one first each round.
fn rounds(effort: Effort, keep_alive: bool, load: (usize, u64)) -> Found {
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        let mut rates = [0.0; CONTENDERS.len()];
        for at in in_turn(number, CONTENDERS.len()) {
            let contender = CONTENDERS[at];
            rates[at] = trial(contender, effort, keep_alive, load, &mut round)?.rate;
        }
        for (contender, rate) in CONTENDERS.iter().zip(rates) {
            round.put(&contender.name(), AGAINST, rate / rates[0]);
            round.put(&contender.name(), AGAINST_ONE, rate / rates[1]);
        }
        Ok(round)
    })?;
    Ok(section.shown(CONTENDERS.map(Contender::name), &COLUMNS))
}

/// The two gains apart, and whether there was something to gain.
fn conclude(section: &mut Section, kind: &str) {
    let busy = section.median(EPOLL, BUSY);
    section.bar(
        &format!("server, {kind}: the plain one is busy"),
        busy,
        "at least 0.95",
        busy >= BUSY_ENOUGH,
    );
    let (one, best) = (Contender::Polled(1).name(), best(section).name());
    let (first, aggregated) = (section.median(&one, AGAINST), section.median(&best, AGAINST_ONE));
    section
        .notes
        .push(format!("- gain of avoiding wake-ups (quota 1 against epoll): {:+.1}%", 100.0 * (first - 1.0)));
    section
        .notes
        .push(format!("- gain of aggregation ({best} against quota 1): {:+.1}%", 100.0 * (aggregated - 1.0)));
}

/// The quota with the largest median.
fn best(section: &Section) -> Contender {
    let rate = |contender: &Contender| section.median(&contender.name(), AGAINST);
    let polled = CONTENDERS.into_iter().filter(|contender| matches!(contender, Contender::Polled(_)));
    polled.max_by(|one, other| rate(one).total_cmp(&rate(other))).unwrap_or(Contender::Polled(1))
}

/// Measures the best one anew: the largest of several figures that scatter is too large, by chance.
fn confirm(
    section: &mut Section,
    effort: Effort,
    keep_alive: bool,
    load: (usize, u64),
) -> Result<(), Box<dyn Error>> {
    let best = best(section);
    let pairs = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        let mut pair = [(Contender::Epoll, 0.0), (best, 0.0)];
        for at in in_turn(number, pair.len()) {
            let (contender, rate) = &mut pair[at];
            *rate = trial(*contender, effort, keep_alive, load, &mut round)?.rate;
        }
        round.put(&best.name(), AGAINST, pair[1].1 / pair[0].1);
        Ok(round)
    })?;
    let pairs = pairs.shown([best.name()], &[(AGAINST, 3)]);
    let ratio = pairs.median(&best.name(), AGAINST);
    let kind = if keep_alive { "kept" } else { "closed" };
    let what = format!("server, {kind}: {} against epoll, in pairs of their own", best.name());
    section.bar(&what, ratio, "at least 1", ratio >= 1.0);
    section.add_part("pairs", "In pairs of their own", pairs);
    Ok(())
}

/// The least load with which the plain server is busy; the one with which it was the busiest if none is enough.
fn saturating(effort: Effort, keep_alive: bool) -> Result<((usize, u64), f64), Box<dyn Error>> {
    let tried = effort.load.map_or(LOADS.to_vec(), |load| vec![load]);
    let mut reached = (tried[0], 0.0);
    for load in tried {
        let mut round = Round::default();
        trial(Contender::Epoll, effort, keep_alive, load, &mut round)?;
        let busy = round.figure(EPOLL, BUSY).unwrap_or(f64::NAN);
        if busy > reached.1 {
            reached = (load, busy);
        }
        if busy >= BUSY_ENOUGH {
            break;
        }
    }
    Ok(reached)
}

/// One contender under load.
fn trial(
    contender: Contender,
    effort: Effort,
    keep_alive: bool,
    load: (usize, u64),
    round: &mut Round,
) -> Result<Outcome, Box<dyn Error>> {
    let [here, there] = effort.processors;
    let running = contender.start(here, 1, load)?;
    let kept = there.keep()?;
    let overflows = listen_overflows();
    let before = Ticks::now(Some(here.number()));
    let outcome = effort.tool.load(running.addresses[0], load.0, keep_alive, effort.trial)?;
    let after = Ticks::now(Some(here.number()));
    drop(kept);
    let stats = running.end()?;
    let name = contender.name();
    let busy = before.zip(after).and_then(|(before, after)| {
        // Whatever runs there: programs, the kernel, interrupts; and the host, in whose time nothing could.
        let passed = after.since(before);
        passed.share(passed.all() - passed.idle)
    });
    round.put(&name, RATE, outcome.rate / 1e3);
    round.put(&name, "p50 µs", outcome.p50);
    round.put(&name, "p99 µs", outcome.p99);
    round.put(&name, BUSY, busy);
    round.put(&name, "errors", outcome.errors);
    let turned_away =
        listen_overflows().zip(overflows).map(|(now, before)| now.saturating_sub(before) as f64);
    round.put(&name, OVERFLOWS, turned_away);
    if let Some(stats) = stats {
        let answered = stats.answered.iter().sum::<u64>().max(1) as f64;
        round.put(&name, "found a look", stats.found as f64 / stats.looks.max(1) as f64);
        round.put(&name, "sleeps / 1000", 1e3 * stats.sleeps as f64 / answered);
        round.put(&name, COST, stats.cpu_ns as f64 / 1e3 / answered);
    }
    Ok(outcome)
}

/// Connections that the kernel has turned away since it started, because a listener had no room for them.
fn listen_overflows() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, figures) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "ListenOverflows")?;
    figures.split_whitespace().nth(at)?.parse().ok()
}

const EPOLL: &str = "epoll";
const RATE: &str = "kreq/s";
const BUSY: &str = "busy";
const AGAINST: &str = "against epoll";
const AGAINST_ONE: &str = "against quota 1";
const COST: &str = "CPU µs a request";
const OVERFLOWS: &str = "listen overflows";
const COLUMNS: [(&str, usize); 10] = [
    (RATE, 1),
    (AGAINST, 3),
    ("p50 µs", 0),
    ("p99 µs", 0),
    (BUSY, 3),
    (COST, 1),
    ("found a look", 1),
    ("sleeps / 1000", 1),
    ("errors", 0),
    (OVERFLOWS, 0),
];
/// Of the paper's load: clients saturate the server.
const BUSY_ENOUGH: f64 = 0.95;
/// Connections, and microseconds of work. From a few times the largest quota on: with fewer, there is never so much to
/// be found. With one processor for all clients these may be the slower side, whatever their number; then the answers are
/// made to cost more.
const LOADS: [(usize, u64); 5] = [(64, 0), (128, 0), (256, 0), (64, 10), (64, 30)];
