//! quinn as it is beside quinn behind the gate: `cargo bench -p softtimers-lab --bench quinn [-- --seconds 5
//! --rounds 5]`, each run so long.
//!
//! One way, the same path for both in turn, emulated in real time: a slow link, 10 ms each way, and a queue that is short:
//!
//! ```text
//!   CPU 1   client ──▶ relay: queue ▐ link ▌ 10 ms ──▶ server   CPU 0
//!           hog                     └ what is dropped, and how the packets came
//! ```
//!
//! | column | says |
//! |---|---|
//! | goodput | what the server's program received, in Mbit/s, slow start included |
//! | loss | of the packets that came to the link, those that found its queue full |
//! | cuts | how often congestion control made the window smaller, of each connection |
//! | burst | the most packets that came less than half a packet's time apart, but for the worst of a thousand; and the worst. After a second: slow start's overshoot is a rate, not a burst |
//! | CPU | of the client's thread: quinn, its cryptography and the system calls |
#![forbid(unsafe_code)]

mod path;
mod run;

use std::process::ExitCode;
use std::time::Duration;

use softtimers_lab::bench::{self, Done, Section};
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::Paired;
use softtimers_measure::result::Table;

use path::Line;
use run::{COLUMNS, COST, GOODPUT, Kind, run};

/// The link, whether something else wants the client's processor, and connections.
const RUNS: [(Line, bool, u32); 5] = [
    (Line { mbit: 100, packets: 20 }, false, 1),
    (Line { mbit: 100, packets: 20 }, true, 1),
    (Line { mbit: 300, packets: 30 }, false, 1),
    (Line { mbit: 300, packets: 30 }, true, 1),
    (Line { mbit: 100, packets: 20 }, false, 4),
];

const SECTIONS: [Section<(usize, Duration)>; 1] = [("quinn", measure)];

fn main() -> ExitCode {
    bench::main("quinn", &SECTIONS, |asked| Ok((asked.rounds(), asked.seconds(1))))
}

/// A table for each path and load.
fn measure(&(rounds, time): &(usize, Duration)) -> Done<Vec<Table>> {
    RUNS.into_iter()
        .map(|(line, hog, connections)| {
            let Line { mbit, packets } = line;
            let load = if hog { "CPU hog" } else { "idle" };
            let title = format!("{mbit} Mbit/s, {packets} packets, {load}, {connections} connections");
            let paired = Paired::new(rounds);
            let measured = paired.contest(&[()], &mut Kind::ALL.clone(), |(), kind, round| {
                run(*kind, line, hog, connections, time, |name, figure| round.put(kind.name(), name, figure))
            });
            let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
            let mut table = Table::of(&title, &measured, Kind::ALL.map(Kind::name), &COLUMNS);
            let of = |figure| measured.ratio(figure, Kind::Pairs.name(), Kind::Stock.name());
            let least = match (line.mbit, connections) {
                (_, 4) => 1.0,
                (100, _) => 1.1,
                _ => 1.4,
            };
            table.bar(Bar::at_least(
                format!("{title}: goodput of pairs, against stock's"),
                least,
                of(GOODPUT),
            ));
            table.bar(Bar::at_most(format!("{title}: CPU of pairs, against stock's"), 2.0, of(COST)));
            Ok(table)
        })
        .collect()
}
