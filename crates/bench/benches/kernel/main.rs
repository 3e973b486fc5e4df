//! What events in the kernel cost a web server: `cargo bench -p softtimers-bench --bench kernel [-- ROUNDS [SECONDS]]`, as
//! root, with nginx and wrk (soft timers §5.1 to §5.4 and §5.9: Tables I to V and XIII).
//!
//! Events that do nothing, or touch fifty cache lines, so long after the one before: at trigger states by
//! `softtimer.bpf.h`, and by a `bpf_timer`, which is a hardware timer. nginx has one processor, wrk another. The cost is the
//! work that nginx does not do: each window with events stands beside one without, in every round the other way round, and
//! the median of the ratios is told.
//!
//! ```text
//!   nginx    │ without │ soft, 20 us │ bpf_timer, 20 us │ without │ …
//!                 └──── ratio ──┘ └────── ratio ──────────┘
//! ```
#![forbid(unsafe_code)]

mod server;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use server::Server;
use softtimers::{Clock, Monotonic};
use softtimers_bench::turns::{self, quartiles};
use softtimers_bpf::{Facility, FacilityConfig, FacilityStats, Probe, ProbeConfig, Source};

/// Three that are cheap: none of them is met for every system call.
const THREE: [Source; 3] = [Source::SoftInterrupt, Source::Timer, Source::Switch];
/// nginx's processor, by bit.
const SERVER: u64 = 1;
/// Table I's intervals, in microseconds; zero is each trigger state.
const PERIODS: [u64; 5] = [0, 10, 20, 50, 100];
/// Table XIII's deadlines.
const DEADLINES: [u64; 7] = [10, 20, 50, 100, 200, 500, 1_000];

type Done<T> = Result<T, Box<dyn Error>>;

/// What goes on beside nginx.
#[derive(Clone, Debug)]
enum Beside {
    Probe(Vec<Source>),
    Events(FacilityConfig),
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct Came {
    requests: f64,
    events: u64,
    by_backup: u64,
    late_mean_ns: f64,
}

fn main() -> ExitCode {
    turns::main("kernel", measure)
}

fn measure(arguments: &[String]) -> Done<()> {
    let mut numbers = arguments.iter().map(|argument| argument.parse::<u32>());
    let rounds = numbers.next().unwrap_or(Ok(5))?;
    let seconds = numbers.next().unwrap_or(Ok(1))?;
    if let Err(why) = Probe::start(&ProbeConfig::default()) {
        println!("skipped: {why}");
        return Ok(());
    }
    let Some(server) = Server::start()? else {
        println!("skipped: this needs nginx, wrk and two processors");
        return Ok(());
    };
    println!("{}", turns::machine());
    let begun = Monotonic.now();
    drop(Facility::start(&FacilityConfig { sources: Source::ALL.to_vec(), ..FacilityConfig::default() })?);
    let took = Monotonic.now().saturating_duration_since(begun);
    println!("fifteen programs loaded, verified, attached and gone again in {} ms", took.as_millis());
    intervals(&server, seconds)?;
    println!("| beside nginx | requests kept, quartiles | events/s | by the backup | mean lateness |");
    println!("|---|---|---|---|---|");
    for (name, beside) in contenders() {
        let mut kept = vec![];
        let mut all = Came::default();
        for round in 0..rounds {
            // Whatever drifts in a round favours neither.
            let (with, without) = if round % 2 == 0 {
                let with = came(&server, &beside, seconds)?;
                (with, server.rate(seconds)?)
            } else {
                let without = server.rate(seconds)?;
                (came(&server, &beside, seconds)?, without)
            };
            kept.push(with.requests / without);
            all.events += with.events;
            all.by_backup += with.by_backup;
            all.late_mean_ns += with.late_mean_ns / f64::from(rounds);
        }
        let [low, median, high] = quartiles(kept.into_iter());
        let rate = all.events as f64 / f64::from(rounds * seconds);
        let share = if all.events == 0 { 0.0 } else { all.by_backup as f64 / all.events as f64 * 100.0 };
        println!(
            "| {name} | {median:.3} ({low:.3} to {high:.3}) | {rate:.0} | {share:.3}% | {:.1} us |",
            all.late_mean_ns / 1e3
        );
    }
    Ok(())
}

fn contenders() -> Vec<(String, Beside)> {
    let micros = Duration::from_micros;
    let events = |period, touches, slack, sources: &[Source]| {
        let sources = sources.to_vec();
        Beside::Events(FacilityConfig {
            period: micros(period),
            slack,
            touches,
            sources,
            processors: SERVER,
            events: 1,
        })
    };
    let mut list = vec![
        ("probe, all sources".to_owned(), Beside::Probe(Source::ALL.to_vec())),
        ("probe, three sources".to_owned(), Beside::Probe(THREE.to_vec())),
    ];
    for touches in [false, true] {
        let what = if touches { "50 lines" } else { "null" };
        for period in PERIODS {
            let every = if period == 0 { "each trigger state".to_owned() } else { format!("{period} us") };
            let slack = Some(micros(1_000));
            list.push((
                format!("soft, three sources, {what}, {every}"),
                events(period, touches, slack, &THREE),
            ));
            list.push((
                format!("soft, all sources, {what}, {every}"),
                events(period, touches, slack, &Source::ALL),
            ));
            if period > 0 {
                list.push((
                    format!("bpf_timer, {what}, {every}"),
                    events(period, touches, Some(Duration::ZERO), &[]),
                ));
            }
        }
    }
    for deadline in DEADLINES {
        let name = format!("soft, all sources, null, 10 us, deadline {deadline} us");
        list.push((name, events(10, false, Some(micros(deadline)), &Source::ALL)));
    }
    list
}

/// A window with it.
fn came(server: &Server, beside: &Beside, seconds: u32) -> Done<Came> {
    match beside {
        Beside::Probe(sources) => {
            let config = ProbeConfig { sources: sources.clone(), samples: 0, ..ProbeConfig::default() };
            let _probe = Probe::start(&config)?;
            Ok(Came { requests: server.rate(seconds)?, ..Came::default() })
        }
        Beside::Events(config) => {
            let facility = Facility::start(config)?;
            let before = facility.stats(0)?;
            let requests = server.rate(seconds)?;
            let after = facility.stats(0)?;
            let since = |of: fn(&FacilityStats) -> u64| of(&after) - of(&before);
            let events = since(FacilityStats::total);
            let late = since(|stats| stats.late_sum_ns) as f64;
            let late_mean_ns = if events == 0 { 0.0 } else { late / events as f64 };
            Ok(Came { requests, events, by_backup: since(FacilityStats::by_backup), late_mean_ns })
        }
    }
}

/// The line of nginx in Tables IV and V.
fn intervals(server: &Server, seconds: u32) -> Done<()> {
    let probe = Probe::start(&ProbeConfig { processors: SERVER, ..ProbeConfig::default() })?;
    server.rate(seconds.max(2))?;
    let counted = probe.intervals()?;
    let Some(cpu) = counted.processors.first() else { return Ok(()) };
    let busy = cpu.busy();
    let (Some(mean), Some(stddev)) = (busy.mean_ns(), busy.stddev_ns()) else { return Ok(()) };
    let median = busy.histogram().quantile(0.5).unwrap_or(0);
    let share = |part: u64| part as f64 / busy.count as f64 * 100.0;
    println!(
        "trigger intervals under nginx: {} of mean {mean:.0} ns, median {median} ns, stddev {stddev:.0} ns, max {} ns; \
         {:.3}% over 100 us, {:.3}% over 150 us",
        busy.count,
        busy.max_ns,
        share(busy.over_100us),
        share(busy.over_150us)
    );
    let shares: Vec<String> =
        Source::ALL.map(|source| format!("{source} {:.1}%", share(cpu.of(source).count))).to_vec();
    println!("by source: {}\n", shares.join(", "));
    Ok(())
}
