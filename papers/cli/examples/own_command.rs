//! The command `softtimers` with an experiment of your own: `cargo run --manifest-path papers/Cargo.toml -p softtimers-papers --example own_command -- sim coin --help`.
//!
//! As a crate of your own it depends on softtimers-papers and softtimers-sim. The rest of the command is included.

use std::process::ExitCode;

use softtimers_sim::{
    ALWAYS, Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams, experiments,
};

/// Tosses a coin until `heads` heads in a row.
static COIN: Experiment = Experiment {
    name: "coin",
    about: "Tosses until N heads in a row",
    details: "A fair coin is tossed. A row of n heads takes 2^(n+1) - 2 tosses on average.",
    parameters: &[Parameter::count("heads", "heads in a row that end it", 1..=20, 3)],
    columns: &[
        Column::new("heads", "heads in a row").given(),
        Column::new("tosses", "tosses until then"),
        Column::new("expected", "their mean").given(),
    ],
    sweep: &[("heads", "1,2,3,4,5")],
    check: ALWAYS,
    run,
};

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let wanted = parameters.count("heads");
    let mut random = streams.of("coin");
    let (mut row, mut tosses) = (0, 0u64);
    while row < wanted && steps.is_wanted() {
        tosses += 1;
        row = if random.below(2) == 1 { row + 1 } else { 0 };
    }
    Ok(vec![vec![wanted.into(), tosses.into(), ((1u64 << (wanted + 1)) - 2).into()]])
}

fn main() -> ExitCode {
    let mut all = experiments::ALL.to_vec();
    all.push(&COIN);
    softtimers_papers::main(&all)
}
