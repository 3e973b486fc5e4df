//! How long the lock of timers that threads share is held, when very many fall due together: `cargo bench -p
//! softtimers-bench --bench shared [-- --rounds 7 --quick --json FILE]`.
//!
//! Whoever sets or cancels a timer waits for whoever has the lock. A program that expires all that is due under one
//! hold keeps the others out for as long as that takes (Costello & Varghese, figure 5); `Shared` lets them in after
//! each step. All timers are due in the same microsecond, and between two holds some that are about to come
//! are cancelled.
//!
//! ```text
//!   one hold     ▐████████████████████████████████▌         grows with what is due
//!   Shared       ▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌▐█▌ …          does not
//! ```
//!
//! | figure | |
//! |---|---|
//! | hold | of each hold the shortest of three identical runs: the longest, and what 99.9% do not exceed |
//! | wait | another thread sets a far timer and cancels it, over and over: what each operation takes |
//!
//! A wait also has in it what the host and the scheduler do, and if the lock's holder loses its processor, the
//! whole of that; a hold has not.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use clap::Parser;
use softtimers::shared::{Remote, Shared};
use softtimers::{
    Clock, Config, Histogram, Monotonic, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState, Turn,
};
use softtimers_bench::arguments;
use softtimers_bench::least::Least;
use softtimers_bench::turns::quartiles;
use softtimers_cli::machine::{Machine, Neighbours};

#[derive(Parser, Debug)]
#[command(about = "how long the lock of shared timers is held", disable_version_flag = true)]
struct Arguments {
    /// How often each is measured
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Once: proves only that all of it runs
    #[arg(long)]
    quick: bool,
    /// Also write all figures to this new file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Figures of a round by name, in nanoseconds.
type Measured = BTreeMap<&'static str, f64>;
/// The rounds of each contender at each number of timers.
type Results = BTreeMap<(usize, &'static str), Vec<Measured>>;

fn main() -> ExitCode {
    let Some(given) = arguments::of("shared") else { return ExitCode::SUCCESS };
    let arguments = Arguments::parse_from(std::iter::once("shared".to_owned()).chain(given));
    match measure_all(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let neighbours = Neighbours::watch();
    let rounds = if arguments.quick { 1 } else { arguments.rounds.max(1) };
    let mut results = Results::new();
    for round in 0..rounds {
        for turn in 0..2 * TIMERS.len() {
            // Another one begins each round.
            let which = (turn + round) % (2 * TIMERS.len());
            let timers = TIMERS[which / 2];
            let (name, measured) = match which % 2 {
                0 => ("Shared", measure::<Steps>(timers)),
                _ => ("one hold", measure::<OneHold>(timers)),
            };
            results.entry((timers, name)).or_default().push(measured);
        }
    }
    println!("{}\n\n{}", Machine::read().line(), table(&results));
    println!("{}", verdict(&results));
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    arguments.json.as_ref().map_or(Ok(()), |path| write(&results, path))
}

/// Timers that many threads set and cancel.
trait Timers: Send + 'static {
    fn set(&self, delay: Duration, number: u32) -> TimerId;
    fn cancel(&self, id: TimerId);
}

/// The thread that expires them.
trait Owner {
    type Timers: Timers;

    fn new() -> Self;
    fn timers(&self) -> Self::Timers;
    /// Holds the lock once, and hands out what is due at [`DUE`]; whether there is more.
    fn hold(&mut self, came: &mut Vec<u32>) -> bool;
}

/// As it is: a step a hold.
struct Steps {
    timers: Shared<u32>,
    turn: Option<Turn>,
}

impl Timers for Remote<u32> {
    fn set(&self, delay: Duration, number: u32) -> TimerId {
        self.schedule(Timestamp::ZERO, delay, Slack::EXACT, number)
    }

    fn cancel(&self, id: TimerId) {
        Remote::cancel(self, id);
    }
}

impl Owner for Steps {
    type Timers = Remote<u32>;

    fn new() -> Self {
        Steps { timers: Shared::new(Config::default()).expect("two descriptors"), turn: None }
    }

    fn timers(&self) -> Remote<u32> {
        self.timers.remote()
    }

    fn hold(&mut self, came: &mut Vec<u32>) -> bool {
        let turn = match self.turn {
            Some(turn) => turn,
            None => *self.turn.insert(self.timers.trigger(TriggerState::Idle, DUE).expect("some are due")),
        };
        match self.timers.step(&turn) {
            Step::Fired(fired) => came.push(fired.event),
            Step::MoreWork => {}
            Step::Done => return false,
        }
        true
    }
}

/// What one would write: all that is due under one hold.
#[derive(Clone)]
struct OneHold(Arc<Mutex<SoftTimers<u32>>>);

impl OneHold {
    fn lock(&self) -> MutexGuard<'_, SoftTimers<u32>> {
        self.0.lock().expect("nobody panics with the lock")
    }
}

impl Timers for OneHold {
    fn set(&self, delay: Duration, number: u32) -> TimerId {
        self.lock().schedule(Timestamp::ZERO, delay, Slack::EXACT, number)
    }

    fn cancel(&self, id: TimerId) {
        self.lock().cancel(id);
    }
}

impl Owner for OneHold {
    type Timers = OneHold;

    fn new() -> Self {
        OneHold(Arc::new(Mutex::new(SoftTimers::new(Config::default()))))
    }

    fn timers(&self) -> OneHold {
        self.clone()
    }

    fn hold(&mut self, came: &mut Vec<u32>) -> bool {
        let mut timers = self.lock();
        let turn = timers.trigger(TriggerState::Idle, DUE);
        while let Some(fired) = timers.next(&turn) {
            came.push(fired.event);
        }
        false
    }
}

fn measure<O: Owner>(count: usize) -> Measured {
    let mut holds = Least::default();
    for _ in 0..3 {
        holds.begin();
        expire::<O>(count, |nanos| holds.add(nanos));
    }
    let waits = waits::<O>(count);
    let wait = |share: f64| waits.quantile(share).unwrap_or(0) as f64;
    [
        ("longest hold", f64::from(holds.longest())),
        ("hold p99.9", f64::from(holds.quantile(0.999))),
        ("longest wait", wait(1.0)),
        ("wait p99.9", wait(0.999)),
        ("wait p50", wait(0.5)),
    ]
    .into()
}

/// Sets so many timers for [`DUE`] and lets them expire; in every other window the one that is soon to come
/// is cancelled. `held` is told how long each hold took.
fn expire<O: Owner>(count: usize, mut held: impl FnMut(u64)) {
    let mut owner = O::new();
    let timers = owner.timers();
    let delay = DUE.saturating_duration_since(Timestamp::ZERO);
    let ids: Vec<TimerId> = (0..count as u32).map(|number| timers.set(delay, number)).collect();
    // The bench's own memory is touched before, or its pages would be faulted in under the lock.
    let (mut came, mut holds) = (vec![0; count], 0_usize);
    came.clear();
    loop {
        let start = Monotonic.now();
        let more = owner.hold(&mut came);
        held(Monotonic.now().saturating_duration_since(start).as_nanos() as u64);
        if !more {
            break;
        }
        holds += 1;
        if holds.is_multiple_of(2) {
            let about = came.last().map_or(holds, |&last| last as usize + 1 + holds % 40);
            ids.get(about).into_iter().for_each(|&id| timers.cancel(id));
        }
    }
    assert!(came.is_sorted() && came.len() > count / 4, "timers were lost, or came out of order");
}

/// What another thread waits while timers expire: each of its operations takes so long.
fn waits<O: Owner>(count: usize) -> Histogram {
    let mut owner = O::new();
    let delay = DUE.saturating_duration_since(Timestamp::ZERO);
    let timers = owner.timers();
    for number in 0..count as u32 {
        timers.set(delay, number);
    }
    let phase = Arc::new(AtomicU8::new(BEFORE));
    let seen = phase.clone();
    let other = thread::spawn(move || {
        let mut waits = Histogram::new();
        while seen.load(Ordering::Relaxed) != OVER {
            let start = Monotonic.now();
            let id = timers.set(FAR, u32::MAX);
            let between = Monotonic.now();
            timers.cancel(id);
            if seen.load(Ordering::Relaxed) == BEFORE {
                seen.store(READY, Ordering::Relaxed);
            } else {
                for (from, to) in [(start, between), (between, Monotonic.now())] {
                    waits.record(to.saturating_duration_since(from).as_nanos() as u64);
                }
            }
        }
        waits
    });
    // Both have a processor by now.
    while phase.load(Ordering::Relaxed) == BEFORE {
        thread::yield_now();
    }
    let mut came = Vec::with_capacity(count);
    while owner.hold(&mut came) {}
    phase.store(OVER, Ordering::Relaxed);
    assert_eq!(came.len(), count, "timers were lost");
    other.join().expect("it does not panic")
}

fn table(results: &Results) -> String {
    let mut text = String::from("| timers due together | |");
    FIGURES.iter().for_each(|figure| text += &format!(" {figure}, ns |"));
    text += &format!("\n|---|---|{}\n", "---|".repeat(FIGURES.len()));
    for (timers, name) in results.keys() {
        let cell = |figure: &&str| format!(" {:.0} |", median(results, *timers, name, figure));
        text += &format!("| {timers} | {name} |{}\n", FIGURES.iter().map(cell).collect::<String>());
    }
    text
}

/// Holds do not grow with the number of timers: nearly all of them not at all, and the longest, whose memory is no
/// longer in the cache among many, not beyond what one step may take.
fn verdict(results: &Results) -> String {
    let of = |timers: usize, figure: &str| median(results, timers, "Shared", figure);
    let [few, _, many] = TIMERS;
    let (ratio, longest) = (of(many, "hold p99.9") / of(few, "hold p99.9"), of(many, "longest hold"));
    let holds = |yes: bool| if yes { "holds" } else { "does **not** hold" };
    format!(
        "hold p99.9, {many} timers against {few}: {ratio:.2} (at most 2: {})\n\
         longest hold, {many} timers: {longest:.0} ns (at most {LONGEST}: {})",
        holds(ratio <= 2.0),
        holds(longest <= LONGEST),
    )
}

fn median(results: &Results, timers: usize, name: &str, figure: &str) -> f64 {
    let rounds = results.iter().find(|((many, who), _)| *many == timers && *who == name);
    let rounds = rounds.map_or(&[][..], |(_, rounds)| rounds);
    quartiles(rounds.iter().filter_map(|round| round.get(figure).copied()))[1]
}

/// All rounds as JSON.
fn write(results: &Results, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut rounds = serde_json::Map::new();
    for ((timers, name), all) in results {
        rounds.insert(format!("{name}/{timers}"), serde_json::to_value(all)?);
    }
    let machine = Machine::read();
    let object =
        serde_json::json!({ "schema": "softtimers.bench.shared/1", "machine": machine, "rounds": rounds });
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    serde_json::to_writer_pretty(file.map_err(|error| format!("{}: {error}", path.display()))?, &object)?;
    Ok(())
}

const TIMERS: [usize; 3] = [1_000, 10_000, 100_000];
const FIGURES: [&str; 5] = ["longest hold", "hold p99.9", "longest wait", "wait p99.9", "wait p50"];
/// What a single step may take at a million timers, in nanoseconds.
const LONGEST: f64 = 5_000.0;
/// When they are due, all of them.
const DUE: Timestamp = Timestamp::from_micros(700);
/// Phases of a drain beside another thread: that has not run yet, it has, and there is nothing left.
const BEFORE: u8 = 0;
const READY: u8 = 1;
const OVER: u8 = 2;
const FAR: Duration = Duration::from_secs(100);
