//! Tables IV and V, figures 2 to 4: how often trigger states are met by six kinds of work.
//!
//! | the paper's | here |
//! |---|---|
//! | ST-Apache | nginx with eight worker processes, a connection for each request |
//! | ST-Apache-compute | the same beside a process of nice 19 that computes without system calls |
//! | ST-Flash | nginx with one event-driven process, connections that last |
//! | ST-real-audio | a player: computes, and asks the system for something small every few microseconds |
//! | ST-nfs | a file server whose blocks are on the disk before it answers |
//! | ST-kernel-build | make and cc, of generated files that include many headers, from nothing again and again |
//!
//! The paper's idle loop looked at each round, and its NFS server's intervals were those rounds. This kernel's idle loop
//! halts, so what is idle is a column of its own; the second row of ST-nfs has a loop that looks at each round beside it, in
//! the scheduling class for what runs when nothing else does.

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use softtimers::{Clock, Monotonic};
use softtimers_bench::pacing::record::Check;
use softtimers_bpf::{Probe, ProbeConfig, Sample, Source};

use crate::analogues::{self, Running};
use crate::intervals::{Intervals, spread};
use crate::server::{Connections, Server, there};
use crate::{Bench, Done};

/// What is measured, and what its text and its figure say in the paper, in microseconds.
const WORKLOADS: [(&str, &str); 7] = [
    ("ST-Apache", "mean 31.6, median 18, < 6% over 100"),
    ("ST-Apache-compute", "no tangible difference; 1 ms medians 14 to 26"),
    ("ST-Flash", "mean 22.5; 12.5 on the PIII"),
    ("ST-real-audio", "very low mean"),
    ("ST-nfs", "about 2 for most; 90% idle"),
    ("ST-nfs, spin-idle", "about 2 for most"),
    ("ST-kernel-build", "not in the text"),
];

/// As many as in the paper, of those that were not idle.
const SAMPLES: u32 = 2_000_000;
/// What there is room for: idle ones lie between.
const KEPT: u32 = 2 * SAMPLES;

pub(crate) fn run(bench: &mut Bench) -> Done<()> {
    println!("\n### Trigger intervals by workload, µs (Table IV, figure 2)\n");
    if !there("nginx") || !there("wrk") {
        println!("(without nginx and wrk, ST-Apache is a server of threads and clients of our own)\n");
    }
    if analogues::disk_is_memory() {
        println!(
            "({} is in memory: the file server of ST-nfs waits for no disk)\n",
            analogues::disk().display()
        );
    }
    println!("| workload | samples | idle | max | mean | median | stddev | > 100 | > 150 | the paper's |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut found = vec![];
    for (name, paper) in WORKLOADS {
        match measured(bench, name)? {
            Ok((intervals, seconds)) => {
                println!("| {name} | {} | {paper} |", intervals.row());
                bench.json["workloads"][name] = intervals.json(seconds);
                found.push((name, intervals));
            }
            Err(why) => println!("| {name} | skipped: {why} | | | | | | | | {paper} |"),
        }
    }
    let of = |wanted: &str| found.iter().find(|(name, _)| *name == wanted).map(|(_, intervals)| intervals);
    if let Some(apache) = of("ST-Apache") {
        sources(apache);
    }
    over_time(bench, of("ST-Apache-compute"));
    let medians = [of("ST-Apache"), of("ST-Apache-compute")].map(|of| of.map(Intervals::median));
    let apart = medians[0].zip(medians[1]).map(|(without, with)| (with / without - 1.0).abs());
    bench.checks.extend([
        Check::at_most("ST-Apache: medians with and without a computing process apart", 0.1, apart),
        Check::at_most("ST-nfs, spin-idle: median, µs", 5.0, of("ST-nfs, spin-idle").map(Intervals::median)),
        Check::at_most("ST-real-audio: mean, µs", 10.0, of("ST-real-audio").map(Intervals::mean)),
    ]);
    let skewed = found.iter().filter(|(_, intervals)| intervals.median() > intervals.mean()).count();
    let fewest = found.iter().map(|(_, intervals)| intervals.count()).min();
    let worst = |of: fn(&Intervals) -> f64| found.iter().map(|(_, intervals)| of(intervals)).reduce(f64::max);
    bench.checks.extend([
        Check::at_most("workloads whose median is above their mean", 0.0, Some(skewed as f64)),
        Check::at_least(
            "samples of the workload with the fewest",
            SAMPLES.into(),
            fewest.map(|count| count as f64),
        ),
        Check::at_most("worst mean, µs", 31.6, worst(Intervals::mean)),
        Check::at_most("worst share over 100 µs, %", 6.0, worst(|intervals| intervals.over(100))),
    ]);
    Ok(())
}

/// Table V and figure 4.
fn sources(intervals: &Intervals) {
    println!("\n### ST-Apache by source, µs (Table V, figure 4)\n");
    println!(
        "| source | share | mean without it | median without it | > 100 without it |\n|---|---|---|---|---|"
    );
    for source in Source::ALL {
        let [mean, median, over] = intervals.without(source);
        println!("| {source} | {:.2}% | {mean:.2} | {median:.2} | {over:.3}% |", intervals.share(source));
    }
}

/// Figure 3.
fn over_time(bench: &mut Bench, intervals: Option<&Intervals>) {
    let Some(intervals) = intervals else { return };
    println!("\n### Medians over time, µs, of ST-Apache-compute (figure 3)\n");
    println!("| windows | count | median of medians | between their quartiles |\n|---|---|---|---|");
    let [short, long] = [1, 10].map(|millis| {
        let medians = intervals.medians(millis);
        let (distance, median) = spread(&medians);
        println!("| {millis} ms | {} | {median:.3} | {distance:.3} |", medians.len());
        (distance > 0.0 || millis == 10).then_some(distance)
    });
    let ratio = short.zip(long).map(|(short, long)| long / short);
    bench.checks.push(Check::at_most("distance between quartiles, 10 ms against 1 ms", 1.0, ratio));
}

type Measured = Result<(Intervals, f64), String>;

fn measured(bench: &Bench, name: &str) -> Done<Measured> {
    if let Some(missing) = ["setpriv", "chrt", "nice"].into_iter().find(|program| !there(program)) {
        return Ok(Err(format!("this needs {missing}")));
    }
    let mut beside = vec![];
    let (mut running, server);
    match name {
        "ST-Apache" | "ST-Apache-compute" => {
            if name == "ST-Apache-compute" {
                beside.push(computing(bench)?);
            }
            server = Server::start(bench, 8)?;
            running = match &server {
                Some(server) => vec![server.load(bench, Connections::Each)?],
                None => served(bench, "web", "web-client")?,
            };
        }
        "ST-Flash" => {
            server = Server::start(bench, 1)?;
            let Some(server) = &server else { return Ok(Err("this needs nginx and wrk".to_owned())) };
            running = vec![server.load(bench, Connections::Kept)?];
        }
        "ST-real-audio" => running = vec![Running::analogue(bench.server, "player", "")?],
        "ST-nfs" => running = served(bench, "files", "files-client")?,
        "ST-nfs, spin-idle" => {
            beside.push(Running::when_idle(bench.server, "spin")?);
            running = served(bench, "files", "files-client")?;
        }
        _ => return build(bench),
    }
    let sampled = sampled(bench)?;
    let ended = running.iter_mut().chain(&mut beside).any(Running::has_ended);
    Ok(if ended { Err("it ended early".to_owned()) } else { sampled })
}

/// What computes in the background, as little in the way as its nice value makes it.
fn computing(bench: &Bench) -> Done<Running> {
    let mut command = std::process::Command::new("nice");
    command.args(["-n", "19", "setpriv", "--pdeathsig", "KILL"]).arg(std::env::current_exe()?);
    Ok(Running::start(bench.server, command.args(["--analogue", "compute", ""]))?)
}

/// A server of our own and its client; the client ends first.
fn served(bench: &Bench, server: &str, client: &str) -> Done<Vec<Running>> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let server = Running::analogue(bench.server, server, &port)?;
    Ok(vec![Running::analogue(bench.client, client, &port)?, server])
}

fn build(bench: &Bench) -> Done<Measured> {
    if let Some(missing) = ["cc", "make", "ld"].into_iter().find(|program| !there(program)) {
        return Ok(Err(format!("this needs {missing}")));
    }
    let directory = std::env::temp_dir().join(format!("softtimers-build-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let mut building = Running::analogue(bench.server, "build", &directory.to_string_lossy())?;
    let sampled = sampled(bench);
    let ended = building.has_ended();
    drop(building);
    // cc may be about to write to it.
    let _ = fs::remove_dir_all(&directory);
    if ended { Ok(Err("make refused".to_owned())) } else { sampled }
}

/// The intervals of the server's processor, until there are as many as in the paper or the time is over.
fn sampled(bench: &Bench) -> Done<Measured> {
    wait(Duration::from_millis(500));
    let cpu = bench.server.number() as u32;
    let config = ProbeConfig { processors: Some(vec![cpu]), samples: KEPT, ..ProbeConfig::default() };
    let mut probe = Probe::start(&config)?;
    probe.restart()?;
    let begun = Monotonic.now();
    loop {
        wait(Duration::from_millis(50));
        let passed = Monotonic.now().saturating_duration_since(begun);
        let samples: Vec<Sample> = if passed >= bench.longest || full(&probe, cpu)? {
            probe.samples(cpu)?
        } else {
            continue;
        };
        let seconds = samples.iter().map(|sample| f64::from(sample.gap_ns)).sum::<f64>() / 1e9;
        let intervals = Intervals::of(samples);
        return Ok(if intervals.count() == 0 {
            Err("no trigger state was met".to_owned())
        } else {
            Ok((intervals, seconds))
        });
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

/// Lets the others go on.
pub(crate) fn wait(time: Duration) {
    // A signal that ends it early does no harm.
    let _ = poll(&mut [], Timespec::try_from(time).ok().as_ref());
}
