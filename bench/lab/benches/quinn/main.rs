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
//! `course` is one transfer of each over time; `media` sends frames with a deadline beside a transfer. The rest has the path
//! between two hosts of this machine, which needs root, and carries the kernel's TCP as well: in turn with quinn (`kernel`), and
//! together with it (`shared`, `wide`, `far`), also as a flow that is there when another joins (`joins`).
//!
//! `--json FILE --extend` adds to the rounds of that file, so that quiet minutes add up.
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
mod joins;
mod media;
mod met;
mod path;
mod plan;
mod run;

use std::process::ExitCode;

use softtimers_lab::bench::{self, Done, Section};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Paired};
use softtimers_trials::result::{Cell, Table};

use path::Line;
use plan::Plan;
use run::{COLUMNS, COST, DROPS, GOODPUT, Kind, Load, run};

/// A measurement: a path, the flows on it, and its bars.
#[derive(Clone, Copy, Debug)]
struct Case {
    load: Load,
    /// Goodput relative to stock's.
    goodput: f64,
    drops: Drops,
    /// CPU per byte relative to stock's.
    cost: f64,
}

/// A bound on drops.
#[derive(Clone, Copy, Debug)]
enum Drops {
    /// A share of stock's.
    Share(f64),
    Percent(f64),
}

impl Case {
    /// A tenth of stock's drops, and its CPU time.
    const fn of(load: Load, goodput: f64) -> Case {
        Case { load, goodput, drops: Drops::Share(0.1), cost: if load.hog { 1.05 } else { 1.0 } }
    }
}

const SHORT: Load = Load::on(Line::SHORT);
const FAST: Load = Load::on(Line::FAST);

const SECTIONS: [Section<Plan>; 11] = [
    ("short", |plan| {
        let cases = [Case::of(SHORT, 1.45), Case::of(SHORT.beside_hog(), 1.3)];
        measure("short", &Kind::ALL, &cases, plan)
    }),
    ("fast", |plan| {
        measure("fast", &Kind::ALL, &[Case::of(FAST, 1.9), Case::of(FAST.beside_hog(), 1.5)], plan)
    }),
    ("paths", |plan| {
        let on = |packets, millis| Load::on(Line { mbit: 100, packets, millis });
        let cases = [
            Case::of(on(20, 5), 1.0),
            Case::of(on(20, 100), 1.0),
            Case { drops: Drops::Percent(0.0), ..Case::of(on(500, 20), 1.0) },
            Case::of(SHORT.connections(4), 1.0),
        ];
        measure("paths", &[Kind::Stock, Kind::Even], &cases, plan)
    }),
    ("bbr", |plan| {
        let case = |load| Case { drops: Drops::Share(1.0), ..Case::of(load, 1.0) };
        measure("bbr", &[Kind::Bbr, Kind::SmoothBbr], &[case(SHORT), case(FAST)], plan)
    }),
    ("course", course::course),
    ("media", media::media),
    ("kernel", met::kernel),
    ("shared", met::shared),
    ("wide", met::wide),
    ("far", met::far),
    ("joins", joins::joins),
];

fn main() -> ExitCode {
    bench::main("quinn", &SECTIONS, |asked| {
        let megabytes = if asked.quick { 2 } else { asked.number("megabytes").into() };
        Ok(Plan { rounds: asked.rounds(), megabytes, earlier: asked.earlier()? })
    })
}

/// Returns a table of all cases; the last kind is compared with the first.
fn measure(key: &str, kinds: &[Kind], cases: &[Case], plan: &Plan) -> Done<Vec<Table>> {
    let heads = ["path", "load", "connections", "quinn"].map(|name| (name, 0));
    let columns: Vec<(&str, usize)> = heads.into_iter().chain(COLUMNS).collect();
    let mut table = Table::new(key, &columns);
    for case in cases {
        let measured = Paired::new(plan.rounds).contest(&[()], &mut kinds.to_vec(), |(), kind, round| {
            let row = case.name(*kind);
            run(*kind, case.load, plan.megabytes * 1_000_000, |name, figure| round.put(&row, name, figure))
        });
        let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
        let rows: Vec<String> = kinds.iter().map(|kind| case.name(*kind)).collect();
        let measured = plan.with_earlier(&mut table, &rows, &COLUMNS.map(|(name, _)| name), measured);
        table.rows.extend(kinds.iter().map(|kind| case.row(*kind, &measured)));
        if let [first, .., last] = kinds {
            case.bars(*first, *last, &measured).into_iter().for_each(|bar| table.bar_of(&measured, bar));
        }
    }
    Ok(vec![table])
}

impl Case {
    fn name(&self, kind: Kind) -> String {
        let Load { line, hog, connections } = self.load;
        let hog = if hog { ", CPU hog" } else { "" };
        format!("{line}{hog}, {connections} of {}", kind.name())
    }

    fn row(&self, kind: Kind, measured: &Measured) -> Vec<Cell> {
        let Load { line, hog, connections } = self.load;
        let load = if hog { "CPU hog" } else { "idle" };
        let heads =
            [line.to_string().into(), load.into(), Cell::Number(connections.into()), kind.name().into()];
        let row = self.name(kind);
        let figure = |name| measured.estimate(&row, name).map_or(Cell::Nothing(()), Cell::Estimate);
        heads.into_iter().chain(COLUMNS.map(|(name, _)| figure(name))).collect()
    }

    fn bars(&self, stock: Kind, even: Kind, measured: &Measured) -> [Bar; 3] {
        let [stock, even] = [stock, even].map(|kind| self.name(kind));
        let of = |figure| measured.ratio(figure, &even, &stock);
        let drops = match self.drops {
            Drops::Share(most) => Bar::at_most(format!("{even}: drops against stock's"), most, of(DROPS)),
            Drops::Percent(most) => {
                Bar::at_most(format!("{even}: drops in percent"), most, measured.estimate(&even, DROPS))
            }
        };
        [
            Bar::at_least(format!("{even}: goodput against stock's"), self.goodput, of(GOODPUT)),
            drops,
            Bar::at_most(format!("{even}: CPU for a byte against stock's"), self.cost, of(COST)),
        ]
    }
}
