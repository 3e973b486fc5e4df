//! main
mod frame;
mod peer;
mod receiver;
mod sender;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use example_harness::{Sorted, Spacing, table};
use str0m::bwe::Bitrate;

use peer::Failure;
use receiver::Watched;
use sender::{Serve, Served};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let megabits = match megabits(&arguments) {
        Ok(megabits) => megabits,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match compare(megabits, ROUNDS, FRAMES) {
        Ok(ways) => {
            print!("{}", shown(megabits, &ways));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The rate that the arguments ask for.
fn megabits(arguments: &[String]) -> Result<u64, String> {
    let allowed = "the one argument is the Mbit/s of the path, a whole number from 16 to 200";
    match arguments {
        [] => Ok(20),
        [rate] => {
            rate.parse().ok().filter(|rate| (16..=200).contains(rate)).ok_or(format!("{rate}: {allowed}"))
        }
        [_, other, ..] => Err(format!("{other}: {allowed}")),
    }
}

/// One way, all its rounds together.
#[derive(Debug)]
struct Way {
    name: &'static str,
    served: Served,
    watched: Watched,
}

/// Runs every way once a round, in turn: what disturbs the machine meanwhile disturbs all of them.
fn compare(megabits: u64, rounds: u32, frames: u32) -> Result<Vec<Way>, Failure> {
    let interval = Duration::from_nanos(PACKET * 8 * 1_000 / megabits);
    let none = || Watched { frames: 0, bytes: 0, spacing: Spacing::new(interval), delay: Sorted::default() };
    let mut ways = WAYS.map(|(name, _)| Way { name, served: Served::default(), watched: none() });
    for _ in 0..rounds {
        for (way, (_, serve)) in ways.iter_mut().zip(WAYS) {
            let (near, far, mid) = peer::introduced(Bitrate::mbps(megabits))?;
            let done = AtomicBool::new(false);
            let (served, watched) = std::thread::scope(|scope| {
                let far = scope.spawn(|| receiver::watch(far, frames, interval, &done));
                (sender::send(near, mid, serve, frames, megabits, &done), far.join())
            });
            let watched = watched.map_err(|_| "the receiver panicked")?;
            let (served, watched) = (served?, watched?);
            way.served.lateness.join(served.lateness);
            way.served.estimate = served.estimate;
            way.served.dropped += served.dropped;
            way.watched.frames += watched.frames;
            way.watched.bytes += watched.bytes;
            way.watched.spacing.join(watched.spacing);
            way.watched.delay.join(watched.delay);
        }
    }
    Ok(ways.into())
}

fn shown(megabits: u64, ways: &[Way]) -> String {
    let row = |way: &Way| {
        let Way { name, served, watched } = way;
        vec![
            (*name).to_owned(),
            watched.frames.to_string(),
            format!("{:.1}", watched.bytes as f64 / 1e6),
            (watched.spacing.gaps.len()).to_string(),
            format!("{:.1}%", watched.spacing.back_to_back_percent()),
            watched.spacing.longest_burst.to_string(),
            watched.spacing.gaps.p50_p99(MICROSECOND),
            served.lateness.len().to_string(),
            served.lateness.p50_p99(MICROSECOND),
            watched.delay.p50_p99(MILLISECOND),
            format!("{:.1}", served.estimate / 1e6),
            served.dropped.to_string(),
        ]
    };
    let rows: Vec<_> = ways.iter().map(row).collect();
    let interval = PACKET * 8 / megabits;
    format!(
        "str0m, 30 frames a second of 20 to 60 kB, {megabits} Mbit/s: a packet of {PACKET} bytes every {interval} µs\n\n{}",
        table(&HEAD, &rows)
    )
}

const WAYS: [(&str, Serve); 3] = [
    ("time-outs of 1 ms", Serve::Milliseconds),
    ("time-outs on time", Serve::OnTime),
    ("and packets spread", Serve::Spread),
];

const HEAD: [&str; 12] = [
    "way",
    "frames",
    "MB",
    "packets",
    "back to back",
    "longest burst",
    "gap p50 / p99 µs",
    "time-outs",
    "late p50 / p99 µs",
    "frame p50 / p99 ms",
    "estimate Mbit/s",
    "dropped",
];

const ROUNDS: u32 = 2;
const FRAMES: u32 = 30;
/// About what str0m fills.
const PACKET: u64 = 1_200;
const MICROSECOND: f64 = 1e3;
const MILLISECOND: f64 = 1e6;
