//! Costello and Varghese's Table I, and on to a million timers: `cargo bench --manifest-path
//! papers/Cargo.toml --bench callouts [-- --iterations 10000]`.
//!
//! Timers are set for random times far in the future; then one more is repeatedly set for a random time later than all
//! others, and cancelled. The old list must search, so its cost is a straight line; the new ones must not. It also
//! measures cancelling a callout that is not there, which is common, and should cost no more than cancelling one that
//! is.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use softtimers_core::bsd;
use softtimers_core::{Config, Slack, SoftTimers, TimerId, Timestamp};
use softtimers_papers_bench::bench::{self, Done, Section};
use softtimers_sim::callout::DeltaList;
use softtimers_trials::cpu::of_thread;
use softtimers_trials::paired::{Measured, Paired};
use softtimers_trials::random::Random;
use softtimers_trials::result::{Cell, Table};

/// The paper's numbers of timers, and larger ones.
const OUTSTANDING: [usize; 9] = [0, 200, 400, 600, 800, 1_000, 10_000, 100_000, 1_000_000];
const PAPERS: usize = 6;
/// The largest list: filling it is quadratic.
const MOST_IN_A_LIST: usize = 10_000;
/// How many ticks ahead the outstanding ones are, and the later ones.
const FAR: [u64; 2] = [1 << 30, 1 << 31];
/// Callouts that are cancelled, and then cancelled again.
const CANCELLED: usize = 1_000;
/// The operations that are timed.
const OPERATIONS: [&str; 3] = ["set and cancel", "cancel: a hit", "cancel: a miss"];

/// A function and its argument, as numbers: they are never called here.
type Callout = [usize; 2];
type Hashed = bsd::Callouts<Callout>;

/// The three designs that Costello and Varghese compare: the sorted list with differential times of older BSD kernels,
/// timers found by a hash of function and argument, and timers with handles.
trait Callouts {
    /// A handle that identifies a callout.
    type Name: Copy;

    fn empty() -> Self;
    /// Sets a callout `ticks` ticks ahead.
    fn insert(&mut self, ticks: u64, callout: Callout) -> Self::Name;
    /// Cancels a callout; returns whether it was outstanding.
    fn remove(&mut self, name: Self::Name) -> bool;
}

impl Callouts for DeltaList {
    type Name = Callout;

    fn empty() -> Self {
        DeltaList::default()
    }

    fn insert(&mut self, ticks: u64, callout: Callout) -> Callout {
        self.set(ticks, callout);
        callout
    }

    fn remove(&mut self, name: Callout) -> bool {
        self.cancel(name)
    }
}

impl Callouts for Hashed {
    type Name = Callout;

    fn empty() -> Self {
        bsd::Callouts::new(0)
    }

    fn insert(&mut self, ticks: u64, callout: Callout) -> Callout {
        self.timeout(callout, ticks);
        callout
    }

    fn remove(&mut self, name: Callout) -> bool {
        self.untimeout(&name).is_some()
    }
}

impl Callouts for SoftTimers<Callout> {
    type Name = TimerId;

    fn empty() -> Self {
        SoftTimers::new(Config::default())
    }

    fn insert(&mut self, ticks: u64, callout: Callout) -> TimerId {
        self.schedule_at(Timestamp::ZERO, Timestamp::from_micros(ticks), Slack::EXACT, callout)
    }

    fn remove(&mut self, name: TimerId) -> bool {
        self.cancel(name).is_some()
    }
}

const SECTIONS: [Section<[usize; 2]>; 1] = [("callouts", measure)];

fn main() -> ExitCode {
    bench::main("callouts", &SECTIONS, |asked| Ok([asked.rounds(), asked.number("iterations") as usize]))
}

fn measure(&[rounds, iterations]: &[usize; 2]) -> Done<Vec<Table>> {
    let sizes = OUTSTANDING.map(|size| size.to_string());
    let columns = [""].into_iter().chain(sizes.iter().map(String::as_str)).map(|name| (name, 0));
    let columns: Vec<(&str, usize)> = columns.chain([("ns a timer", 3), ("R²", 4)]).collect();
    let mut table = Table::new("callouts", &columns);
    rows("old list", &costs::<DeltaList>(rounds, iterations, MOST_IN_A_LIST)?, &mut table);
    rows("hash", &costs::<Hashed>(rounds, iterations, usize::MAX)?, &mut table);
    rows("handles", &costs::<SoftTimers<Callout>>(rounds, iterations, usize::MAX)?, &mut table);
    Ok(vec![table])
}

/// Measures each number of outstanding callouts.
fn costs<C: Callouts>(rounds: usize, iterations: usize, most: usize) -> Done<Vec<Measured>> {
    let sizes = OUTSTANDING.into_iter().filter(|&outstanding| outstanding <= most);
    sizes.map(|outstanding| cost::<C>(rounds, outstanding, iterations)).collect()
}

fn cost<C: Callouts>(rounds: usize, outstanding: usize, iterations: usize) -> Done<Measured> {
    let (mut callouts, mut random) = (C::empty(), Random::new());
    let far = |random: &mut Random, which: usize| FAR[which] + random.below(FAR[0]);
    for number in 0..outstanding {
        callouts.insert(far(&mut random, 0), [1, number]);
    }
    Paired::new(rounds).as_a_whole().rounds(|_, round| {
        let pair = timed(iterations, || {
            for _ in 0..iterations {
                let name = callouts.insert(far(&mut random, 1), [2, 0]);
                callouts.remove(name);
            }
        });
        let names: Vec<C::Name> =
            (0..CANCELLED).map(|number| callouts.insert(far(&mut random, 1), [3, number])).collect();
        let mut cancel = |hits: bool| {
            timed(CANCELLED, || {
                for &name in &names {
                    assert!(callouts.remove(name) == hits, "a callout was lost or kept");
                }
            })
        };
        for (operation, nanos) in OPERATIONS.into_iter().zip([pair, cancel(true), cancel(false)]) {
            round.put("", operation, nanos);
        }
        Ok(())
    })
}

fn timed(operations: usize, work: impl FnOnce()) -> f64 {
    let start = of_thread();
    work();
    (of_thread() - start).as_nanos() as f64 / operations as f64
}

fn rows(who: &str, costs: &[Measured], table: &mut Table) {
    for operation in OPERATIONS {
        let values: Vec<Option<f64>> = costs.iter().map(|cost| cost.median("", operation)).collect();
        let [slope, fit] = line(&values[..PAPERS]);
        let mut cells: Vec<Cell> = costs.iter().map(|cost| cost.estimate("", operation).into()).collect();
        cells.resize(OUTSTANDING.len(), Cell::Nothing(()));
        let name = Cell::from(format!("{who}, {operation}"));
        table.rows.push([name].into_iter().chain(cells).chain([slope.into(), fit.into()]).collect());
    }
    let reason = costs.iter().find_map(Measured::inconclusive);
    table.inconclusive = table.inconclusive.take().or_else(|| reason.map(str::to_owned));
}

/// The slope of the line through the costs at the paper's sizes, and how well it fits.
fn line(values: &[Option<f64>]) -> [f64; 2] {
    let points = OUTSTANDING.iter().zip(values).filter_map(|(&size, value)| Some((size as f64, (*value)?)));
    let points: Vec<(f64, f64)> = points.collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    let (xx, xy, yy) = (sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y));
    [xy / xx, xy * xy / (xx * yy)]
}
