//! Tables IV and V, figures 2 to 4: how often six kinds of work pass trigger states.
//!
//! | the paper's | here |
//! |---|---|
//! | ST-Apache | nginx with eight worker processes, a connection for each request |
//! | ST-Apache-compute | the same beside a process of nice 19 that computes without system calls |
//! | ST-Flash | nginx with one event-driven process, connections that last |
//! | ST-real-audio | a player: computes, and makes a small system call every few microseconds |
//! | ST-nfs | a file server whose blocks are on the disk before it answers |
//! | ST-kernel-build | make and cc, of generated files that include many headers, from nothing again and again |
//!
//! The paper's idle loop polled in each round, and its NFS server's intervals were those rounds. This kernel's idle
//! loop halts, so idle time is a separate column; the second row of ST-nfs has a loop next to it that polls in each
//! round, in the scheduling class for otherwise idle CPUs.

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_bpf::{Probe, ProbeConfig, Sample, Source};
use softtimers_measure::estimate::Estimate;
use softtimers_measure::machine::BackgroundLoad;
use softtimers_papers_bench::bench::Done;
use softtimers_trials::bar::Bar;
use softtimers_trials::command::pause;
use softtimers_trials::result::{Cell, Table};

use crate::Bench;
use crate::analogues::{self, Running};
use crate::intervals::{COLUMNS, Intervals};
use crate::server::{Server, there};

/// The measured workloads, with the paper's mean and median in microseconds.
const WORKLOADS: [(&str, &str); 7] = [
    ("ST-Apache", "mean 31.6, median 18, < 6% over 100"),
    ("ST-Apache-compute", "no tangible difference; 1 ms medians 14 to 26"),
    ("ST-Flash", "mean 22.5; 12.5 on the PIII"),
    ("ST-real-audio", "very low mean"),
    ("ST-nfs", "about 2 for most; 90% idle"),
    ("ST-nfs, spin-idle", "about 2 for most"),
    ("ST-kernel-build", "not in the text"),
];

/// The paper's number of samples, without idle ones.
const SAMPLES: u32 = 2_000_000;
/// The room for samples, including idle ones.
const KEPT: u32 = 2 * SAMPLES;

/// Table IV and figure 2, then V and 4, then 3; times in microseconds.
pub(crate) fn run(bench: &Bench) -> Done<Vec<Table>> {
    let host = BackgroundLoad::of_host();
    let head = [&[("workload", 0)], &COLUMNS[..], &[("the paper's", 0)]].concat();
    let mut table = Table::new("workloads", &head);
    let mut found = vec![];
    for (name, paper) in WORKLOADS {
        match measured(bench, name)? {
            Ok(intervals) => {
                let cells = intervals.row().into_iter().chain([paper.into()]);
                table.rows.push(std::iter::once(Cell::from(name)).chain(cells).collect());
                found.push((name, intervals));
            }
            Err(why) => table.note(format!("{name} is skipped: {why}")),
        }
    }
    if analogues::disk_is_memory() {
        table.note(format!(
            "{} is in memory: the file server of ST-nfs waits for no disk",
            analogues::disk().display()
        ));
    }
    let of = |wanted: &str| found.iter().find(|(name, _)| *name == wanted).map(|(_, intervals)| intervals);
    // Other programs are the experiment.
    table.inconclusive = host.so_far().inconclusive();
    let (over_time, ratio) = over_time(of("ST-Apache-compute"));
    let medians = [of("ST-Apache"), of("ST-Apache-compute")].map(|of| of.map(Intervals::median));
    let apart = medians[0].zip(medians[1]).map(|(without, with)| (with / without - 1.0).abs());
    let skewed = found.iter().filter(|(_, intervals)| intervals.median() > intervals.mean()).count();
    let fewest = found.iter().map(|(_, intervals)| intervals.count()).min();
    let worst = |of: fn(&Intervals) -> f64| found.iter().map(|(_, intervals)| of(intervals)).reduce(f64::max);
    for bar in [
        Bar::at_most("ST-Apache: medians with and without a computing process apart", 0.1, apart),
        Bar::at_most("ST-nfs, spin-idle: median, µs", 5.0, of("ST-nfs, spin-idle").map(Intervals::median)),
        Bar::at_most("ST-real-audio: mean, µs", 10.0, of("ST-real-audio").map(Intervals::mean)),
        Bar::at_most("distance between quartiles, 10 ms against 1 ms", 1.0, ratio),
        Bar::at_most("workloads whose median is above their mean", 0.0, skewed as f64),
        Bar::at_least(
            "samples of the workload with the fewest",
            SAMPLES.into(),
            fewest.map(|count| count as f64),
        ),
        Bar::at_most("worst mean, µs", 31.6, worst(Intervals::mean)),
        Bar::at_most("worst share over 100 µs, %", 6.0, worst(|intervals| intervals.over(100))),
    ] {
        table.bar(bar);
    }
    let distributions = found.iter().map(|(name, intervals)| intervals.distribution(name));
    let mut tables = vec![table, sources(&found), over_time];
    tables.extend(distributions);
    Ok(tables)
}

/// Returns Table V and figure 4.
fn sources(found: &[(&str, Intervals)]) -> Table {
    let columns = [
        ("workload", 0),
        ("source", 0),
        ("share %", 2),
        ("mean without it", 2),
        ("median without it", 2),
        ("> 100 without it %", 3),
    ];
    let mut table = Table::new("sources", &columns);
    for (name, intervals) in found {
        for source in Source::ALL {
            let [mean, median, over] = intervals.without(source);
            let share = intervals.share(source);
            table.row([
                (*name).into(),
                source.name().into(),
                share.into(),
                mean.into(),
                median.into(),
                over.into(),
            ]);
        }
    }
    table
}

/// Returns figure 3, and the ratio of the distances between quartiles.
fn over_time(intervals: Option<&Intervals>) -> (Table, Option<f64>) {
    let columns = [("windows", 0), ("count", 0), ("median of medians", 3), ("between their quartiles", 3)];
    let mut table = Table::new("medians over time, ST-Apache-compute", &columns);
    let [short, long] = [1, 10].map(|millis| {
        let estimate = Estimate::from_values(intervals?.medians(millis))?;
        let [low, high] = estimate.quartiles;
        let name = format!("{millis} ms");
        table.row([
            name.into(),
            (estimate.values as f64).into(),
            estimate.median.into(),
            (high - low).into(),
        ]);
        (high > low || millis == 10).then_some(high - low)
    });
    (table, short.zip(long).map(|(short, long)| long / short))
}

type Measured = Result<Intervals, String>;

fn measured(bench: &Bench, name: &str) -> Done<Measured> {
    let here = |under: &[&str], name| Running::analogue(bench.server, under, [name, ""]);
    let mut running = vec![];
    let server = match name {
        "ST-Apache" | "ST-Apache-compute" => Some((8, false)),
        "ST-Flash" => Some((1, true)),
        _ => None,
    };
    let server = match server {
        None => None,
        Some((workers, kept)) => {
            let Some(server) = Server::start(bench, workers)? else {
                return Ok(Err("this needs nginx and wrk".to_owned()));
            };
            running.push(server.load(bench, kept)?);
            Some(server)
        }
    };
    match name {
        // It interferes as little as its nice value allows.
        "ST-Apache-compute" => running.push(here(&["nice", "-n", "19"], "compute")?),
        "ST-real-audio" => running.push(here(&[], "player")?),
        "ST-nfs, spin-idle" => running.push(here(&["chrt", "--idle", "0"], "spin")?),
        "ST-kernel-build" => return build(bench),
        _ => {}
    }
    if name.starts_with("ST-nfs") {
        let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        running.push(Running::analogue(bench.server, &[], ["files", &port])?);
        running.push(Running::analogue(bench.client, &[], ["files-client", &port])?);
    }
    let sampled = sampled(bench)?;
    let ended = running.iter_mut().any(Running::has_ended);
    drop(server);
    Ok(if ended { Err("it ended early".to_owned()) } else { sampled })
}

fn build(bench: &Bench) -> Done<Measured> {
    if let Some(missing) = ["cc", "make", "ld"].into_iter().find(|program| !there(program)) {
        return Ok(Err(format!("this needs {missing}")));
    }
    let directory = std::env::temp_dir().join(format!("softtimers-build-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let mut building = Running::analogue(bench.server, &[], ["build", &directory.to_string_lossy()])?;
    let sampled = sampled(bench);
    let ended = building.has_ended();
    drop(building);
    // cc may be about to write to it.
    let _ = fs::remove_dir_all(&directory);
    if ended { Ok(Err("make refused".to_owned())) } else { sampled }
}

/// Records the intervals of the server's CPU, until there are as many as in the paper or the time is over.
fn sampled(bench: &Bench) -> Done<Measured> {
    pause(Duration::from_millis(500));
    let cpu = bench.server.number() as u32;
    let config = ProbeConfig { processors: Some(vec![cpu]), samples: KEPT, ..ProbeConfig::default() };
    let mut probe = Probe::start(&config)?;
    probe.restart()?;
    let begun = Monotonic.now();
    loop {
        pause(Duration::from_millis(50));
        let passed = Monotonic.now().saturating_duration_since(begun);
        let samples: Vec<Sample> = if passed >= bench.longest || full(&probe, cpu)? {
            probe.samples(cpu)?
        } else {
            continue;
        };
        let intervals = Intervals::from_samples(samples);
        let met = intervals.count() > 0;
        return Ok(met.then_some(intervals).ok_or_else(|| "no trigger state was met".to_owned()));
    }
}

fn full(probe: &Probe, cpu: u32) -> Done<bool> {
    let counted = probe.intervals()?;
    let processor = counted.processors.iter().find(|processor| processor.cpu == cpu);
    Ok(processor.is_some_and(|processor| {
        let busy = processor.busy().count;
        busy >= SAMPLES.into() || busy + processor.idle.count >= KEPT.into()
    }))
}
