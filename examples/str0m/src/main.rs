//! What punctual time-outs are worth to str0m, and what else a video frame needs.
//!
//! str0m is WebRTC without I/O: after each call, `poll_output` returns packets to send, then the time of the next call.
//! Most loops round that up to a millisecond, as the timer of `epoll_wait` or a socket's receive time-out does. And
//! they send the packets as they come, fifty of them for a big frame: str0m paces like libwebrtc, so 40 ms of its rate
//! or 63 kB may leave together, and a video frame is smaller.
//!
//! Two peers, each with its own loop, send 30 frames a second from one to the other over loopback, in three ways in
//! turn, with bandwidth estimation on:
//!
//! - **time-outs of 1 ms**: rounded up; packets sent as they come;
//! - **time-outs on time**: by [`softtimers::EventLoop`]; packets sent as they come;
//! - **and packets spread**: media waits in a [`DepartureQueue`](softtimers::queue::DepartureQueue), at a rate.
//!
//! ```sh
//! cargo run --release -p str0m-timeouts            # spread at 50 Mbit/s
//! cargo run --release -p str0m-timeouts -- 100     # or at another rate, 30 to 200
//! ```
//!
//! Read [`sender`] first.
//!
//! # When not to do this
//!
//! - **Punctual time-outs alone** make no burst shorter: see the second row. They are worth their wake-ups if something
//!   else in the program needs microseconds, or for a prober that times its packets by them.
//! - **At a rate near the video's own.** The estimator takes the queue for the path: at 20 Mbit/s it found fewer than
//!   20 Mbit/s, and once fewer than the video needs. Use a multiple of the estimate, and update it
//!   (`DepartureQueue::set_rate`) with each `EgressBitrateEstimate`, where the path is unknown.
//! - **Where each millisecond counts** and the path can take the bursts: a frame is complete with its last packet, and
//!   spreading delays that one by the frame's time at the rate.
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

/// Parses the rate from the arguments.
fn megabits(arguments: &[String]) -> Result<u64, String> {
    let allowed = "the one argument is Mbit/s, a whole number from 30 to 200";
    match arguments {
        [] => Ok(50),
        [rate] => {
            rate.parse().ok().filter(|rate| (30..=200).contains(rate)).ok_or(format!("{rate}: {allowed}"))
        }
        [_, other, ..] => Err(format!("{other}: {allowed}")),
    }
}

/// The results of one way, over all rounds.
#[derive(Debug)]
struct Way {
    name: &'static str,
    served: Served,
    watched: Watched,
}

/// Runs every way once per round, in turn, so that disturbances of the machine affect all of them.
fn compare(megabits: u64, rounds: u32, frames: u32) -> Result<Vec<Way>, Failure> {
    let interval = Duration::from_nanos(PACKET * 8 * 1_000 / megabits);
    let none = || Watched { frames: 0, bytes: 0, spacing: Spacing::new(interval), delay: Sorted::default() };
    let mut ways = WAYS.map(|(name, _)| Way { name, served: Served::default(), watched: none() });
    for _ in 0..rounds {
        for (way, (_, serve)) in ways.iter_mut().zip(WAYS) {
            let (near, far, mid) = peer::introduced(ESTIMATE)?;
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

/// The estimate that str0m starts with and should probe for: half as much again as the video's mean rate.
const ESTIMATE: Bitrate = Bitrate::mbps(15);
const ROUNDS: u32 = 2;
const FRAMES: u32 = 30;
/// The approximate size of str0m's packets.
const PACKET: u64 = 1_200;
const MICROSECOND: f64 = 1e3;
const MILLISECOND: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_arrives_any_way_and_bursts_are_shorter_when_spread() {
        let frames = 12;
        let spacing = |way: &Way| {
            let spacing = &way.watched.spacing;
            (spacing.longest_burst, spacing.back_to_back_percent())
        };
        // What a machine that stands still holds up comes in one burst: then it is done again.
        let mut seen = vec![];
        let shorter = (0..5).any(|_| {
            let ways = compare(50, 1, frames).unwrap();
            for way in &ways {
                assert_eq!(way.watched.frames, frames, "{}", way.name);
                assert!(way.served.lateness.least() > Some(-1_000), "{}: early", way.name);
            }
            let ways: Vec<_> = ways.iter().map(spacing).collect();
            let [milliseconds, on_time, spread] = ways[..] else { panic!("{} ways", ways.len()) };
            seen.push(ways);
            [milliseconds, on_time].iter().all(|other| spread.0 <= other.0 && spread.1 < other.1)
        });
        assert!(shorter, "longest burst and % back to back, by milliseconds, on time and spread: {seen:?}");
    }

    #[test]
    fn what_is_no_rate_is_named() {
        let refused = |words: &[&str]| megabits(&words.iter().map(|&word| word.into()).collect::<Vec<_>>());
        assert_eq!(refused(&[]), Ok(50));
        assert_eq!(refused(&["200"]), Ok(200));
        for word in ["29", "201", "-1", "50.5", "fast", ""] {
            assert!(refused(&[word]).unwrap_err().starts_with(&format!("{word}: ")));
        }
        assert!(refused(&["40", "more"]).unwrap_err().starts_with("more: "));
    }
}
