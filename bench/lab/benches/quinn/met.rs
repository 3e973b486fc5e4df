//! quinn and the kernel's TCP, between two hosts: in turn over the same path, and on it together.

use std::sync::OnceLock;
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::{Cell, Table};

use crate::bridge::Bridged;
use crate::flows::{Meeting, Met, Sender, meet};
use crate::path::Line;
use crate::plan::Plan;
use crate::run::{DROPS, Failure, GOODPUT, Kind};

pub(crate) const STOCK: Sender = Sender::Quinn(Kind::Stock);
pub(crate) const EVEN: Sender = Sender::Quinn(Kind::Even);
pub(crate) const CUBIC: Sender = Sender::Tcp("cubic");
const BBR: Sender = Sender::Tcp("bbr");

/// Returns the two hosts. They are never dropped: a watcher removes them when this process ends.
pub(crate) fn between() -> Done<&'static Bridged> {
    static LAID: OnceLock<Bridged> = OnceLock::new();
    if let Some(laid) = LAID.get() {
        return Ok(laid);
    }
    let laid = Bridged::lay()?;
    Ok(LAID.get_or_init(|| laid))
}

/// Runs a transfer of each in turn.
pub(crate) fn kernel(plan: &Plan) -> Done<Vec<Table>> {
    let between = between()?;
    let columns = [("path", 0), ("sender", 0), (GOODPUT, 1), (DROPS, 2)];
    let mut table = Table::new("kernel", &columns);
    let bytes = plan.megabytes * 1_000_000;
    let meeting = Meeting { bytes, ..Meeting::of(MOST) };
    for line in [Line::SHORT, Line::FAST] {
        let mut senders = [STOCK, EVEN, CUBIC, BBR];
        let measured = Paired::new(plan.rounds).contest(&[()], &mut senders, |(), sender, round| {
            let met = meet(between, line, &[*sender], meeting)?;
            let name = sender.name();
            round.put(&name, GOODPUT, met.ended(0, bytes).map(|took| bytes as f64 * 8e-6 / took));
            round.put(&name, DROPS, met.drops);
            Ok::<_, Failure>(())
        });
        let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
        for sender in senders.map(Sender::name) {
            let figure = |name| measured.estimate(&sender, name).into();
            table.row([line.to_string().into(), sender.as_str().into(), figure(GOODPUT), figure(DROPS)]);
        }
    }
    Ok(vec![table])
}

/// Measures the shares of a link that flows share.
pub(crate) fn shared(plan: &Plan) -> Done<Vec<Table>> {
    shares("shared", 20, &[20, 100, 500], plan)
}

/// The same at a short round trip.
pub(crate) fn wide(plan: &Plan) -> Done<Vec<Table>> {
    shares("wide", 5, &[20, 100, 500], plan)
}

/// The same at a long one.
pub(crate) fn far(plan: &Plan) -> Done<Vec<Table>> {
    shares("far", 100, &[20, 100, 500], plan)
}

/// Meetings over paths of this round trip, with each of these queues. The share must not be that of the beginning: they last as
/// long as six transfers of a megabyte for each that is asked for, and 200 round trips at least.
fn shares(key: &str, millis: u64, queues: &[u32], plan: &Plan) -> Done<Vec<Table>> {
    let between = between()?;
    let heads = [("path", 0), ("flows", 0)];
    let columns: Vec<(&str, usize)> = heads.into_iter().chain(SHARES).collect();
    let mut table = Table::new(key, &columns);
    let time = Duration::from_millis((600 * plan.megabytes).max(20 * millis * plan.megabytes));
    for &packets in queues {
        let line = Line { packets, millis, ..Line::SHORT };
        for senders in MEETINGS {
            let flows = names(senders);
            let name = format!("{line}, {flows}");
            let measured = Paired::new(plan.rounds).rounds(|number, round| {
                // In rotating order.
                let mut senders = senders.to_vec();
                let first = number % senders.len().max(1);
                senders.rotate_left(first);
                let met = meet(between, line, &senders, Meeting::of(time))?;
                let figures = met.shares(&senders, time);
                SHARES.iter().zip(figures).for_each(|((column, _), figure)| round.put(&name, column, figure));
                Ok::<_, Failure>(())
            });
            let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
            let rows = [name.clone()];
            let measured = plan.with_earlier(&mut table, &rows, &SHARES.map(|(name, _)| name), measured);
            let figure = |figure| measured.estimate(&name, figure);
            let mut row: Vec<Cell> = vec![line.to_string().into(), flows.into()];
            row.extend(SHARES.iter().map(|(column, _)| Cell::from(figure(column))));
            table.rows.push(row);
            let alike = senders.iter().all(|sender| *sender == EVEN);
            let (column, least) = if alike { (JAIN, 0.95) } else { (KEPT, 0.85) };
            if senders.contains(&EVEN) {
                let bar = Bar::at_least(format!("{name}: {column}"), least, figure(column));
                table.bar_of(&measured, bar);
            }
        }
    }
    Ok(vec![table])
}

const KEPT: &str = "others keep";
const JAIN: &str = "Jain's index";
/// Figures of flows that meet: means of a flow; and another flow's part of its fair share.
const SHARES: [(&str, usize); 5] =
    [("even, Mbit/s", 1), ("others, Mbit/s", 1), (KEPT, 2), (JAIN, 3), (DROPS, 2)];

const MEETINGS: [&[Sender]; 4] = [&[EVEN, STOCK], &[EVEN, CUBIC], &[STOCK, CUBIC], &[EVEN; 4]];

fn names(senders: &[Sender]) -> String {
    let mut names: Vec<(String, u32)> = vec![];
    for sender in senders.iter().map(|sender| sender.name()) {
        match names.iter_mut().find(|(name, _)| *name == sender) {
            Some((_, count)) => *count += 1,
            None => names.push((sender, 1)),
        }
    }
    let names: Vec<String> = names.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    names.join(" and ")
}

impl Met {
    /// Returns after how many seconds a flow was complete.
    fn ended(&self, flow: usize, bytes: u64) -> Option<f64> {
        self.received.iter().find(|(_, counts)| counts[flow] >= bytes).map(|(when, _)| when.as_secs_f64())
    }

    /// Returns the figures of [`SHARES`].
    fn shares(&self, senders: &[Sender], time: Duration) -> [Option<f64>; 5] {
        let rates = self.rates(time);
        let part = |even: bool| -> Vec<f64> {
            let of = senders.iter().zip(&rates).filter(|(sender, _)| (**sender == EVEN) == even);
            of.map(|(_, rate)| *rate).collect()
        };
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        let mean = |rates: &[f64]| (!rates.is_empty()).then(|| sum(rates) / rates.len() as f64);
        let [even, others] = [part(true), part(false)].map(|rates| mean(&rates));
        let kept = others.zip(mean(&rates)).map(|(others, all)| others / all).filter(|_| even.is_some());
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let jain = sum(&rates).powi(2) / (rates.len() as f64 * squares);
        [even, others, kept, Some(jain), Some(self.drops)]
    }

    /// Returns the Mbit/s of each flow, without the first sixth of the time.
    fn rates(&self, time: Duration) -> Vec<f64> {
        self.rates_between(time / 6, time)
    }

    /// Returns the Mbit/s of each flow from a time to another, or to the last sample.
    pub(crate) fn rates_between(&self, from: Duration, to: Duration) -> Vec<f64> {
        let at = |time| self.received.get(self.received.partition_point(|(when, _)| *when < time));
        let Some((from, to)) = at(from).zip(at(to).or(self.received.last())) else { return vec![] };
        let seconds = (to.0 - from.0).as_secs_f64();
        from.1.iter().zip(&to.1).map(|(from, to)| (to - from) as f64 * 8e-6 / seconds).collect()
    }
}

/// The longest time for one transfer.
const MOST: Duration = Duration::from_secs(60);
