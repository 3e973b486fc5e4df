//! The table: requests/s by server, with persistent connections and with one for each request.

use softtimers_lab::bench::Done;
use softtimers_lab::server::client;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Round};
use softtimers_trials::result::Table;

use super::Effort;
use super::contender::{BUSY, Contender, Load, RATE};

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

pub(crate) fn kept(effort: &Effort) -> Done<Vec<Table>> {
    tables(effort, true)
}

pub(crate) fn closed(effort: &Effort) -> Done<Vec<Table>> {
    tables(effort, false)
}

fn tables(effort: &Effort, keep_alive: bool) -> Done<Vec<Table>> {
    let kind = if keep_alive { "kept" } else { "closed" };
    let (load, reached) = saturating(effort, keep_alive)?;
    let measured = rounds(effort, keep_alive, load)?;
    let best = best(&measured);
    let mut table = shown(kind, &measured);
    table.note(format!(
        "{}: the plain server was busy for {:.1}% when this was chosen",
        said(load),
        100.0 * reached
    ));
    conclude(&mut table, &measured, best, kind);
    let mut tables = vec![table, confirmed(best, effort, keep_alive, load)?];
    if load.1 > 0 {
        // Work makes polling a smaller part of an answer: the cost of polling must be measured without.
        let mut bare =
            shown(&format!("{kind}, without that work"), &rounds(effort, keep_alive, (load.0, 0))?);
        bare.note(said((load.0, 0)));
        tables.push(bare);
    }
    Ok(tables)
}

fn said((connections, work): Load) -> String {
    format!("{connections} connections, {work} µs of work an answer")
}

/// Measures all contenders, in rotating order.
fn rounds(effort: &Effort, keep_alive: bool, load: Load) -> Done<Measured> {
    effort.rounds.contest(&[()], &mut CONTENDERS.clone(), |(), contender, round| {
        trial(*contender, effort, keep_alive, load, round)
    })
}

fn shown(key: &str, measured: &Measured) -> Table {
    let mut table = Table::of(key, measured, CONTENDERS.map(Contender::name), &COLUMNS);
    table.against("against epoll", measured, RATE, EPOLL);
    table.against("against quota 1", measured, RATE, &Contender::Polled(1).name());
    table
}

/// Adds the two gains, and whether there was something to gain.
fn conclude(table: &mut Table, measured: &Measured, best: Contender, kind: &str) {
    let busy = measured.estimate(EPOLL, BUSY);
    table.bar(Bar::at_least(format!("server, {kind}: the plain one is busy"), BUSY_ENOUGH, busy));
    let (one, best) = (Contender::Polled(1).name(), best.name());
    let gain = |of: &str, to: &str| {
        100.0 * (measured.ratio(RATE, of, to).map_or(f64::NAN, |ratio| ratio.median) - 1.0)
    };
    let (first, aggregated) = (gain(&one, EPOLL), gain(&best, &one));
    table.note(format!("gain of avoiding wake-ups (quota 1 against epoll): {first:+.1}%"));
    table.note(format!("gain of aggregation ({best} against quota 1): {aggregated:+.1}%"));
}

/// The quota with the largest median.
fn best(measured: &Measured) -> Contender {
    let rate = |contender: &Contender| {
        measured.ratio(RATE, &contender.name(), EPOLL).map_or(0.0, |rate| rate.median)
    };
    let polled = CONTENDERS.into_iter().filter(|contender| matches!(contender, Contender::Polled(_)));
    polled.max_by(|one, other| rate(one).total_cmp(&rate(other))).unwrap_or(Contender::Polled(1))
}

/// Measures the best one again: the maximum of several scattered figures is biased upwards.
fn confirmed(best: Contender, effort: &Effort, keep_alive: bool, load: Load) -> Done<Table> {
    let kind = if keep_alive { "kept" } else { "closed" };
    let measured = effort.rounds.contest(&[()], &mut [Contender::Epoll, best], |(), contender, round| {
        trial(*contender, effort, keep_alive, load, round)
    })?;
    let key = format!("{kind}, in pairs of their own");
    let mut table = Table::of(&key, &measured, [EPOLL.to_owned(), best.name()], &[(RATE, 1)]);
    let ratio = measured.ratio(RATE, &best.name(), EPOLL);
    table.bar(Bar::at_least(format!("server, {key}: {} against epoll", best.name()), 1.0, ratio));
    Ok(table)
}

/// Returns the smallest load that keeps the plain server busy, or else the one with which it was the busiest.
fn saturating(effort: &Effort, keep_alive: bool) -> Done<(Load, f64)> {
    let mut reached = (LOADS[0], 0.0);
    for load in LOADS {
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
fn trial(contender: Contender, effort: &Effort, keep_alive: bool, load: Load, round: &mut Round) -> Done {
    let (name, before) = (contender.name(), listen_overflows());
    let (_, stats) = contender.trial(effort, 1, load, (round, &name), |addresses| {
        let clients = vec![(addresses[0], load.0)];
        client::Load { clients, keep_alive, interval: None, time: effort.trial }.run()
    })?;
    let turned_away = listen_overflows().zip(before).map(|(now, before)| now.saturating_sub(before) as f64);
    round.put(&name, OVERFLOWS, turned_away);
    if let Some(stats) = stats {
        let answered = stats.answered.iter().sum::<u64>().max(1) as f64;
        round.put(&name, "found a look", stats.found as f64 / stats.looks.max(1) as f64);
        round.put(&name, "sleeps / 1000", 1e3 * stats.sleeps as f64 / answered);
        round.put(&name, COST, stats.cpu_ns as f64 / 1e3 / answered);
    }
    Ok(())
}

/// Returns the connections that the kernel has refused since boot, because a listener had no room for them.
fn listen_overflows() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, figures) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "ListenOverflows")?;
    figures.split_whitespace().nth(at)?.parse().ok()
}

const EPOLL: &str = "epoll";
const COST: &str = "CPU µs a request";
const OVERFLOWS: &str = "listen overflows";
const COLUMNS: [(&str, usize); 9] = [
    (RATE, 1),
    ("p50 µs", 0),
    ("p99 µs", 0),
    (BUSY, 3),
    (COST, 1),
    ("found a look", 1),
    ("sleeps / 1000", 1),
    ("errors", 0),
    (OVERFLOWS, 0),
];
/// The share of the CPU at which the load counts as the paper's: clients saturate the server.
const BUSY_ENOUGH: f64 = 0.95;
/// Connections, and microseconds of work. There are a few times the largest quota: with fewer, a poll could never find
/// as many. With one CPU for all clients these may be the slower side for any number; then the answers get additional
/// work.
const LOADS: [Load; 5] = [(64, 0), (128, 0), (256, 0), (64, 10), (64, 30)];
