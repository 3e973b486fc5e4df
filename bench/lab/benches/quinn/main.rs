//! quinn unchanged and quinn with even pacing: `cargo bench --manifest-path bench/Cargo.toml --bench quinn [-- SECTION --megabytes 10
//! --rounds 5]`, each run for this number of megabytes.
//!
//! One way, the same path for all in turn, emulated in real time: a slow link, a delay, and a short queue:
//!
//! ```text
//!   CPU 1   client ──▶ relay: queue ▐ link ▌ delay ──▶ server   CPU 0
//!           hog                     └ drops, and how the packets came
//! ```
//!
//! `course` is one transfer of each over time. `kernel` and `shared` have the path between two hosts of this machine,
//! which needs root, and carries the kernel's TCP as well: in turn with quinn, and together with it.
//!
//! | column | meaning |
//! |---|---|
//! | goodput | from the first byte sent to the last one received, in Mbit/s, slow start included |
//! | drops | share of the packets at the link that found its queue full |
//! | cuts | how often congestion control reacted to losses, of each connection |
//! | burst | the most packets less than half a packet's time apart, except for the worst of a thousand; and the worst. After 0.3 s: slow start's trains are intended |
//! | CPU | of the client's thread: quinn, its cryptography and the system calls |
#![forbid(unsafe_code)]

mod bridge;
mod course;
mod flows;
mod met;
mod path;
mod run;

use std::process::ExitCode;

use softtimers_lab::bench::{self, Done, Section};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Paired};
use softtimers_trials::result::{Cell, Table};

use path::Line;
use run::{COLUMNS, COST, DROPS, GOODPUT, Kind, Load, run};

/// A measurement: a path, the flows on it, and its bars.
#[derive(Clone, Copy, Debug)]
struct Case {
    load: Load,
    /// Goodput relative to stock's.
    goodput: f64,
    drops: Drops,
    /// CPU per byte relative to stock's.
    cost: Option<f64>,
}

/// A bound on drops.
#[derive(Clone, Copy, Debug)]
enum Drops {
    /// A share of stock's.
    Share(f64),
    Percent(f64),
    Any,
}

const SHORT: Load = Load::on(Line::SHORT);
const FAST: Load = Load::on(Line::FAST);

const SECTIONS: [Section<(usize, u64)>; 7] = [
    ("short", |asked| {
        let case =
            |load, goodput, drops, cost| Case { load, goodput, drops: Drops::Share(drops), cost: Some(cost) };
        let cases = [case(SHORT, 1.3, 0.5, 1.2), case(SHORT.beside_hog(), 1.3, 0.5, 1.2)];
        measure("short", &Kind::ALL, &cases, asked)
    }),
    ("fast", |asked| {
        let case = |load| Case { load, goodput: 1.5, drops: Drops::Share(1.0), cost: Some(1.5) };
        measure("fast", &Kind::ALL, &[case(FAST), case(FAST.beside_hog())], asked)
    }),
    ("paths", |asked| {
        let on = |packets, millis| Load::on(Line { mbit: 100, packets, millis });
        let case = |load, goodput, drops| Case { load, goodput, drops, cost: None };
        let same = Drops::Share(1.0);
        let cases = [
            case(on(20, 5), 1.0, same),
            case(on(20, 100), 1.0, same),
            case(on(500, 20), 0.98, Drops::Percent(0.5)),
            case(SHORT.connections(4), 1.0, Drops::Any),
        ];
        measure("paths", &[Kind::Stock, Kind::Even], &cases, asked)
    }),
    ("bbr", |asked| {
        let case = |load| Case { load, goodput: 1.0, drops: Drops::Any, cost: None };
        measure("bbr", &[Kind::Bbr, Kind::SmoothBbr], &[case(SHORT), case(FAST)], asked)
    }),
    ("course", course::course),
    ("kernel", met::kernel),
    ("shared", met::shared),
];

fn main() -> ExitCode {
    bench::main("quinn", &SECTIONS, |asked| {
        let megabytes = if asked.quick { 2 } else { asked.number("megabytes").into() };
        Ok((asked.rounds(), megabytes))
    })
}

/// Returns a table of all cases; the last kind is compared with the first.
fn measure(
    key: &str,
    kinds: &[Kind],
    cases: &[Case],
    &(rounds, megabytes): &(usize, u64),
) -> Done<Vec<Table>> {
    let heads = ["path", "load", "connections", "quinn"].into_iter();
    let columns = heads.chain(COLUMNS.map(|(name, _)| name)).map(str::to_owned).collect();
    let decimals = [0; 4].into_iter().chain(COLUMNS.map(|(_, decimals)| decimals)).collect();
    let mut table = Table { key: key.to_owned(), columns, decimals, ..Table::default() };
    for case in cases {
        let measured = Paired::new(rounds).contest(&[()], &mut kinds.to_vec(), |(), kind, round| {
            run(*kind, case.load, megabytes * 1_000_000, |name, figure| round.put(kind.name(), name, figure))
        });
        let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
        table.rows.extend(kinds.iter().map(|kind| case.row(*kind, &measured)));
        if let [first, .., last] = kinds {
            case.bars(*first, *last, &measured).into_iter().for_each(|bar| table.bar(bar));
        }
    }
    Ok(vec![table])
}

impl Case {
    fn row(&self, kind: Kind, measured: &Measured) -> Vec<Cell> {
        let Load { line, hog, connections } = self.load;
        let load = if hog { "CPU hog" } else { "idle" };
        let heads =
            [line.to_string().into(), load.into(), Cell::Number(connections.into()), kind.name().into()];
        let figure = |name| measured.estimate(kind.name(), name).map_or(Cell::Nothing(()), Cell::Estimate);
        heads.into_iter().chain(COLUMNS.map(|(name, _)| figure(name))).collect()
    }

    fn bars(&self, stock: Kind, even: Kind, measured: &Measured) -> Vec<Bar> {
        let Load { line, hog, connections } = self.load;
        let hog = if hog { ", CPU hog" } else { "" };
        let title = format!("{line}{hog}, {connections} of {}", even.name());
        let of = |figure| measured.ratio(figure, even.name(), stock.name());
        let mut bars =
            vec![Bar::at_least(format!("{title}: goodput against stock's"), self.goodput, of(GOODPUT))];
        bars.extend(match self.drops {
            Drops::Any => None,
            Drops::Share(most) => {
                Some(Bar::at_most(format!("{title}: drops against stock's"), most, of(DROPS)))
            }
            Drops::Percent(most) => {
                let drops = measured.estimate(even.name(), DROPS);
                Some(Bar::at_most(format!("{title}: drops in percent"), most, drops))
            }
        });
        let cost = |most| Bar::at_most(format!("{title}: CPU for a byte against stock's"), most, of(COST));
        bars.extend(self.cost.map(cost));
        bars
    }
}
