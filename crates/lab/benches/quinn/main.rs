//! quinn as it is beside quinn behind the gate: `cargo bench -p softtimers-bench --bench quinn [-- SECONDS
//! [ROUNDS]]`, each run so long, five seconds and five rounds if nothing is said.
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

mod path;
mod run;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use softtimers_bench::turns::{self, machine};
use softtimers_cli::machine::Neighbours;

use path::Line;
use run::{Figures, Kind, Load, run};

const RUNS: [(Line, Load, u32); 5] = [
    (Line { mbit: 100, packets: 20 }, Load::Idle, 1),
    (Line { mbit: 100, packets: 20 }, Load::Hog, 1),
    (Line { mbit: 300, packets: 30 }, Load::Idle, 1),
    (Line { mbit: 300, packets: 30 }, Load::Hog, 1),
    (Line { mbit: 100, packets: 20 }, Load::Idle, 4),
];

fn main() -> ExitCode {
    turns::main("quinn", measure)
}

fn measure(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let number = |at: usize| arguments.get(at).map(|word| word.parse::<u32>()).transpose();
    let (seconds, rounds) = (number(0)?.unwrap_or(5).max(1), number(1)?.unwrap_or(5).max(1));
    let time = Duration::from_secs(seconds.into());
    println!("{}; medians of {rounds} rounds of {seconds} s, in turn\n", machine());
    println!(
        "| path | load | connections | quinn | goodput Mbit/s | loss | burst 99.9% / most | CPU | CPU ns/kB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let neighbours = Neighbours::watch();
    for (line, load, connections) in RUNS {
        let mut all = Kind::ALL.map(|_| Vec::new());
        for round in 0..rounds as usize {
            for place in 0..Kind::ALL.len() {
                // One round forwards, one backwards.
                let at = if round % 2 == 0 { place } else { Kind::ALL.len() - 1 - place };
                let run = run(Kind::ALL[at], line, load, connections, time);
                all[at].push(run.map_err(|error| -> Box<dyn Error> { error })?);
            }
        }
        for (kind, runs) in Kind::ALL.iter().zip(&all) {
            println!("| {line} | {load} | {connections} | {kind} | {} |", Figures::medians(runs));
        }
        let [stock, gate, ..] = &all;
        let gain = median(stock.iter().zip(gate).map(|(stock, gate)| gate.goodput / stock.goodput));
        let cost = median(stock.iter().zip(gate).map(|(stock, gate)| gate.cpu_per_kb() / stock.cpu_per_kb()));
        println!("|  |  |  | pairs: × stock | {gain:.2} |  |  |  |  | {cost:.2} |");
    }
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    turns::quartiles(values)[1]
}
