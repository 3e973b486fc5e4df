//! Costello and Varghese's Table I, and on to a million timers: `cargo bench -p softtimers-bench --bench
//! callouts [-- ITERATIONS]`.
//!
//! Timers are set for random times far in the future; then one more is set, again and again, for
//! a random time farther than all others, and cancelled. The old list must search, so its cost is a
//! straight line; the new ones must not. Also what it costs to cancel a callout that is not there: that
//! is common, and should cost no more than to cancel one that is.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use softtimers::late::cpu_time;
use softtimers_bench::arguments;
use softtimers_bench::callouts::{Callouts, DeltaList, Handles, Hashed};
use softtimers_bench::random::Random;
use softtimers_bench::turns::{machine, quartiles};
use softtimers_cli::machine::Neighbours;

/// Those of the paper, then beyond.
const OUTSTANDING: [usize; 9] = [0, 200, 400, 600, 800, 1_000, 10_000, 100_000, 1_000_000];
const PAPERS: usize = 6;
/// To fill the list is quadratic.
const MOST_IN_A_LIST: usize = 10_000;
const ROUNDS: usize = 7;
/// Ticks ahead of the outstanding ones, and of those farther.
const FAR: [u64; 2] = [1 << 30, 1 << 31];
/// Callouts that are there to be cancelled, and then are not.
const CANCELLED: usize = 1_000;

fn main() -> ExitCode {
    let Some(arguments) = arguments::of("callouts") else { return ExitCode::SUCCESS };
    let iterations = match arguments.first().map_or(Ok(10_000), |argument| argument.parse::<usize>()) {
        Ok(iterations) if iterations > 0 => iterations,
        _ => {
            eprintln!("error: the argument is a number of iterations, at least 1");
            return ExitCode::from(2);
        }
    };
    let neighbours = Neighbours::watch();
    println!("{}\n", machine());
    println!("ns, medians of {ROUNDS} rounds; the line is through the paper's sizes, 0 to 1,000\n");
    let sizes: Vec<String> = OUTSTANDING.iter().map(usize::to_string).collect();
    println!("| | {} | ns a timer | R² |", sizes.join(" | "));
    println!("|---|{}---|---|", "---|".repeat(OUTSTANDING.len()));
    rows("old list", &costs::<DeltaList>(iterations, MOST_IN_A_LIST));
    rows("hash", &costs::<Hashed>(iterations, usize::MAX));
    rows("handles", &costs::<Handles>(iterations, usize::MAX));
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    ExitCode::SUCCESS
}

/// ns of a set and a cancel, of a cancel that hits and of one that misses.
type Costs = [f64; 3];

fn costs<C: Callouts>(iterations: usize, most: usize) -> Vec<Costs> {
    OUTSTANDING
        .iter()
        .filter(|&&outstanding| outstanding <= most)
        .map(|&n| median::<C>(n, iterations))
        .collect()
}

fn median<C: Callouts>(outstanding: usize, iterations: usize) -> Costs {
    let (mut callouts, mut random) = (C::default(), Random::new());
    let far = |random: &mut Random, which: usize| FAR[which] + random.below(FAR[0]);
    for number in 0..outstanding {
        callouts.set(far(&mut random, 0), (1, number));
    }
    let rounds: Vec<Costs> = (0..ROUNDS)
        .map(|_| {
            let pair = timed(iterations, || {
                for _ in 0..iterations {
                    let name = callouts.set(far(&mut random, 1), (2, 0));
                    callouts.cancel(name);
                }
            });
            let names: Vec<C::Name> =
                (0..CANCELLED).map(|number| callouts.set(far(&mut random, 1), (3, number))).collect();
            let mut cancel = |hits: bool| {
                timed(CANCELLED, || {
                    for &name in &names {
                        assert!(callouts.cancel(name) == hits, "a callout was lost or kept");
                    }
                })
            };
            [pair, cancel(true), cancel(false)]
        })
        .collect();
    [0, 1, 2].map(|which| quartiles(rounds.iter().map(|round| round[which]))[1])
}

fn timed(operations: usize, work: impl FnOnce()) -> f64 {
    let start = cpu_time();
    work();
    (cpu_time() - start).as_nanos() as f64 / operations as f64
}

fn rows(who: &str, costs: &[Costs]) {
    for (which, what) in ["set and cancel", "cancel: a hit", "cancel: a miss"].into_iter().enumerate() {
        let values: Vec<f64> = costs.iter().map(|costs| costs[which]).collect();
        let [slope, fit] = line(&values[..PAPERS]);
        let mut cells: Vec<String> = values.iter().map(|value| format!("{value:.0}")).collect();
        cells.resize(OUTSTANDING.len(), "–".into());
        println!("| {who}, {what} | {} | {slope:.3} | {fit:.4} |", cells.join(" | "));
    }
}

/// The slope of the line through the costs at the paper's sizes, and how well it fits.
fn line(values: &[f64]) -> [f64; 2] {
    let count = values.len() as f64;
    let points: Vec<(f64, f64)> = OUTSTANDING.iter().map(|&n| n as f64).zip(values.iter().copied()).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    let (xx, xy, yy) = (sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y));
    [xy / xx, xy * xy / (xx * yy)]
}
