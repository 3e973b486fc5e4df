//! Timer structures beside each other in one run: `cargo bench -p softtimers-lab --bench timers
//! [-- --workload W3 --contender softtimers --rounds 3 --quick --json FILE]`.
//!
//! Each pair of a contender and a workload is a process of its own, so that nobody inherits another's
//! heap; the contenders take turns, and the median of the rounds is shown. What is counted is the
//! thread's processor time, which a neighbour does not add to. Time is simulated: a tick is 1 µs, and 1 ms
//! for contenders that know nothing finer, which see the same number of ticks.
//!
//! | workload | what happens |
//! |---|---|
//! | W1 | N timers 60 to 120 s away; one more, 120 to 130 s away, is set and cancelled |
//! | W1R | a random one of the N is moved to 120 to 130 s |
//! | W2 | N timers within a second: set all, expire in steps of 1 µs |
//! | W3 | N connections, each with a time-out of 2.0 to 4.3 s; each µs one is re-armed, 5% expire |
//! | W4 | F flows at their own intervals of 10 µs to 1 ms; steps of 1 µs, or from one to the next |
//! | W5 | N timers 60 s away: is anything due, and when is the next? |
//! | stalls | W3 across 2^24 ticks and 2^36 ns, then a jump of a second: the longest single call |
//!
//! Pages are of 4 KiB: huge ones are switched off in the processes that measure.

mod clock;
mod contender;
mod contenders;
mod family;
mod report;
mod stalls;
mod workloads;

use std::process::{Command, ExitCode};

use clap::Parser;
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_measure::paired::Paired;
use softtimers_measure::result::Table;

use contenders::Contest;
use report::Figures;

#[derive(Parser, Debug)]
#[command(about = "softtimers beside other timer structures, in one run", disable_version_flag = true)]
struct Arguments {
    /// Only these workloads, with or without their size: W1, W4/64, stalls
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// Only these contenders
    #[arg(long = "contender", value_name = "NAME")]
    contenders: Vec<String>,
    #[command(flatten)]
    asked: Asked,
    /// Measure this one here, and print its figures as JSON: what the bench starts for each pair
    #[arg(long, hide = true, num_args = 2, value_names = ["CONTENDER", "WORKLOAD"])]
    one: Option<Vec<String>>,
}

const SECTIONS: [Section<Arguments>; 1] = [("timers", measure_all)];

fn main() -> ExitCode {
    bench::main("timers", |given| {
        let arguments: Arguments = bench::parse("timers", given, &SECTIONS);
        match &arguments.one {
            Some(pair) => measure_one(&pair[0], &pair[1], arguments.asked.quick),
            None => arguments.asked.run("timers", "", &SECTIONS, &arguments),
        }
    })
}

/// The child: one contender, one workload, its figures on stdout. Shortly means a tenth of the timers and operations.
fn measure_one(contender: &str, workload: &str, quick: bool) -> Done {
    clock::small_pages();
    let workload = workload.parse()?;
    let contest = Contest { workload, shrink: if quick { 10 } else { 1 } };
    let figures = contenders::run(contender, &contest)?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// A table for each workload.
fn measure_all(arguments: &Arguments) -> Done<Vec<Table>> {
    let workloads = workloads::named(&arguments.workloads)?;
    let names = contenders::named(&arguments.contenders)?;
    let mut tables = Vec::new();
    for (which, workload) in workloads.iter().enumerate() {
        eprintln!("{workload} ({} of {})", which + 1, workloads.len());
        let workload = workload.to_string();
        let paired = Paired::new(arguments.asked.rounds(3));
        let measured = paired.contest(&[()], &mut names.clone(), |(), contender, round| {
            let figures = in_a_process(contender, &workload, arguments.asked.quick)?;
            figures.into_iter().for_each(|(name, figure)| round.put(contender, &name, figure));
            Done::Ok(())
        })?;
        tables.push(report::table(&workload, &names, &measured));
    }
    Ok(tables)
}

fn in_a_process(contender: &str, workload: &str, quick: bool) -> Done<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", contender, workload]).args(quick.then_some("--quick"));
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{contender} on {workload}: {} {}", output.status, said.trim()).into());
    }
    // Why it did not take part, if so.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
