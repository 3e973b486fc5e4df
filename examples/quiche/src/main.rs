//! What quiche's release times are worth, and how to keep them.
//!
//! A QUIC sender should not send a window of packets in one burst: the first queue on the path drops what it cannot
//! hold, or delays other traffic. So quiche paces. But as a protocol without I/O it can only say, with each packet,
//! when it should leave: [`quiche::SendInfo::at`]. Its own examples send it at once, so that the pacing has no effect;
//! and a timer that counts milliseconds hardly improves this, since at 40 Mbit/s four packets fall into one.
//!
//! The program transfers the same bytes in three ways in turn, over loopback with a path of 10 ms behind it
//! ([`client`]), and shows how the packets came, by the kernel's receive times, and how late they left:
//!
//! ```sh
//! cargo run --release -p quiche-release-times             # at most 40 Mbit/s
//! cargo run --release -p quiche-release-times -- 100      # or another rate, 4 to 200
//! ```
//!
//! Read [`server`] first.
//!
//! # When not to do this
//!
//! - **With quiche's Reno and CUBIC**, whose only time is "now". Pace by the congestion window and the round-trip time
//!   yourself, with a `RateClock`, or use BBR as here.
//! - **Where the kernel does it**: on an interface with the fq queueing discipline, `SO_TXTIME` accepts `at` directly,
//!   and saves the wake-ups. `softtimers doctor` says whether it works on your machine.
//! - **Where a packet is sent every few microseconds** (above a few Gbit/s): send segments together, a quantum at a
//!   time.

mod client;
mod connection;
mod server;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use example_harness::{Spacing, table};

use client::Received;
use connection::{Failure, PACKET};
use server::{Release, Sent, Server};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let megabits = match megabits(&arguments) {
        Ok(megabits) => megabits,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match compare(megabits, ROUNDS, megabits * BYTES_PER_MEGABIT) {
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
    let allowed = "the one argument is the most Mbit/s, a whole number from 4 to 200";
    match arguments {
        [] => Ok(40),
        [rate] => {
            rate.parse().ok().filter(|rate| (4..=200).contains(rate)).ok_or(format!("{rate}: {allowed}"))
        }
        [_, other, ..] => Err(format!("{other}: {allowed}")),
    }
}

/// The results of one way, over all rounds.
#[derive(Debug)]
struct Way {
    name: &'static str,
    sent: Sent,
    received: Received,
}

/// Runs every way once per round, in turn, so that disturbances of the machine affect all of them.
fn compare(megabits: u64, rounds: u32, bytes: u64) -> Result<Vec<Way>, Failure> {
    let certificate = certificate()?;
    let interval = Duration::from_nanos(PACKET as u64 * 8 * 1_000 / megabits);
    let none = || Received { bytes: 0, spacing: Spacing::new(interval), took: Duration::ZERO };
    let mut ways = WAYS.map(|(name, _)| Way { name, sent: Sent::default(), received: none() });
    for _ in 0..rounds {
        for (way, (_, release)) in ways.iter_mut().zip(WAYS) {
            let server = Server::new(release, megabits, bytes, certificate.path())?;
            let address = server.address();
            let (sent, received) = std::thread::scope(|scope| {
                let client = scope.spawn(|| client::fetch(address, ROUND_TRIP, interval));
                (server.serve(), client.join())
            });
            let (sent, received) = (sent?, received.map_err(|_| "the client panicked")??);
            way.sent.lateness.join(sent.lateness);
            way.sent.dropped += sent.dropped;
            way.received.spacing.join(received.spacing);
            way.received.bytes += received.bytes;
            way.received.took += received.took;
        }
    }
    Ok(ways.into())
}

/// Creates a file with a key and its self-signed certificate, removed when dropped.
fn certificate() -> Result<tempfile::NamedTempFile, Failure> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let mut file = tempfile::NamedTempFile::new()?; // readable by its owner only
    write!(file, "{}{}", made.cert.pem(), made.signing_key.serialize_pem())?;
    Ok(file)
}

fn shown(megabits: u64, ways: &[Way]) -> String {
    let interval = PACKET as u64 * 8 / megabits;
    let row = |way: &Way| {
        let Received { bytes, spacing, took } = &way.received;
        vec![
            way.name.to_owned(),
            way.sent.lateness.len().to_string(),
            format!("{:.1}", *bytes as f64 / 1e6),
            format!("{:.2}", took.as_secs_f64()),
            format!("{:.1}", *bytes as f64 * 8.0 / 1e6 / took.as_secs_f64()),
            format!("{:.1}%", spacing.back_to_back_percent()),
            spacing.longest_burst.to_string(),
            spacing.gaps.p50_p99(MICROSECOND),
            way.sent.lateness.p50_p99(MICROSECOND),
            way.sent.dropped.to_string(),
        ]
    };
    let rows: Vec<_> = ways.iter().map(row).collect();
    format!(
        "quiche, at most {megabits} Mbit/s: a packet of {PACKET} bytes every {interval} µs; {} ms round trip\n\n{}",
        ROUND_TRIP.as_millis(),
        table(&HEAD, &rows)
    )
}

const WAYS: [(&str, Release); 3] = [
    ("at once, `at` ignored", Release::AtOnce),
    ("`at`, timer of 1 ms", Release::Milliseconds),
    ("`at`, softtimers", Release::OnTime),
];

const HEAD: [&str; 10] = [
    "release",
    "packets",
    "MB",
    "s",
    "Mbit/s",
    "back to back",
    "longest burst",
    "gap p50 / p99 µs",
    "late p50 / p99 µs",
    "dropped",
];

/// Three rounds, and transfers of 0.8 s at the full rate: eight seconds in all.
const ROUNDS: u32 = 3;
const BYTES_PER_MEGABIT: u64 = 100_000;
/// The round-trip time of a continent; without one there would be hardly any window.
const ROUND_TRIP: Duration = Duration::from_millis(10);
const MICROSECOND: f64 = 1e3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arrives_either_way_and_bursts_are_shorter_on_time() {
        let bytes = 400_000;
        let spacing = |way: &Way| {
            let spacing = &way.received.spacing;
            (spacing.longest_burst, spacing.back_to_back_percent())
        };
        // After a stall of the machine everything comes in one burst: then another attempt is made.
        let mut seen = vec![];
        let shorter = (0..5).any(|_| {
            let ways = compare(20, 1, bytes).unwrap();
            for way in &ways {
                assert_eq!(way.received.bytes, bytes, "{}", way.name);
            }
            let [at_once, milliseconds, on_time] = &ways[..] else { panic!("{} ways", ways.len()) };
            // Both times are of one clock, but the conversion may be off by some nanoseconds.
            for waiting in [milliseconds, on_time] {
                assert!(waiting.sent.lateness.least() > Some(-1_000), "{}: early", waiting.name);
            }
            assert!(at_once.sent.lateness.least() < Some(-1_000), "quiche asked for no time to come");
            let (on_time, at_once) = (spacing(on_time), spacing(at_once));
            seen.push((on_time, at_once));
            on_time.0 <= at_once.0 && on_time.1 < at_once.1
        });
        assert!(shorter, "longest burst and % back to back, on time and at once: {seen:?}");
    }

    #[test]
    fn what_is_no_rate_is_named() {
        let refused = |words: &[&str]| megabits(&words.iter().map(|&word| word.into()).collect::<Vec<_>>());
        assert_eq!(refused(&[]), Ok(40));
        assert_eq!(refused(&["200"]), Ok(200));
        for word in ["3", "201", "-1", "4.5", "fast", ""] {
            assert!(refused(&[word]).unwrap_err().starts_with(&format!("{word}: ")));
        }
        assert!(refused(&["40", "more"]).unwrap_err().starts_with("more: "));
    }
}
