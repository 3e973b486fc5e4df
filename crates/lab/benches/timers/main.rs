//! Timer structures beside each other in one run: `cargo bench -p softtimers-bench --bench timers
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

use std::error::Error;
use std::process::{Command, ExitCode};

use clap::Parser;
use softtimers_bench::arguments;
use softtimers_bench::rounds::in_turn;
use softtimers_bench::sections::JsonFile;
use softtimers_cli::machine::{Machine, Neighbours};

use contenders::Contest;
use report::{Measured, Results};

#[derive(Parser, Debug)]
#[command(about = "softtimers beside other timer structures, in one run", disable_version_flag = true)]
struct Arguments {
    /// Only these workloads, with or without their size: W1, W4/64, stalls
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// Only these contenders
    #[arg(long = "contender", value_name = "NAME")]
    contenders: Vec<String>,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A tenth of the timers and of the operations, once: proves only that all of it runs
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    file: JsonFile,
    /// Measure this one here, and print its figures as JSON: what the bench starts for each pair
    #[arg(long, hide = true, num_args = 2, value_names = ["CONTENDER", "WORKLOAD"])]
    one: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let Some(given) = arguments::of("timers") else { return ExitCode::SUCCESS };
    let arguments = Arguments::parse_from(std::iter::once("timers".to_owned()).chain(given));
    let result = match &arguments.one {
        Some(pair) => measure_one(&pair[0], &pair[1], arguments.quick),
        None => measure_all(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The child: one contender, one workload, its figures on stdout.
fn measure_one(contender: &str, workload: &str, quick: bool) -> Result<(), Box<dyn Error>> {
    clock::small_pages();
    let workload = workload.parse()?;
    let contest = Contest { workload, shrink: if quick { 10 } else { 1 } };
    let figures = contenders::run(contender, &contest)?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn measure_all(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let workloads = workloads::named(&arguments.workloads)?;
    let names = contenders::named(&arguments.contenders)?;
    let rounds = if arguments.quick { 1 } else { arguments.rounds.max(1) };
    let writer = arguments.file.create("timers")?;
    let neighbours = Neighbours::watch();
    let mut results = Results::default();
    for (which, workload) in workloads.iter().enumerate() {
        eprintln!("{workload} ({} of {})", which + 1, workloads.len());
        for round in 0..rounds {
            for turn in in_turn(round, names.len()) {
                let contender = names[turn];
                results.add(
                    workload,
                    contender,
                    in_a_process(contender, &workload.to_string(), arguments.quick)?,
                );
            }
        }
    }
    println!("{}\n", Machine::read().line());
    print!("{}", results.tables());
    print!("{}", report::bars(&results));
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    Ok(writer.write("rounds", &results.to_json())?)
}

fn in_a_process(contender: &str, workload: &str, quick: bool) -> Result<Measured, Box<dyn Error>> {
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
