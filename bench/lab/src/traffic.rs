//! TCP traffic to measure an emulator with, the same for all of them: [`serve`], and [`ask`] at the other end.
//!
//! ```text
//!   ask ── 'e' ──▶ bytes come back                       ask pings, one after the other
//!   ask ── 's' ──▶ bytes are counted for a time, after half a second; then the rate comes back
//! ```
//!
//! The receiving end counts the rate, and sends it back by itself: some proxies close both directions when one ends. The
//! sender uses Reno, which keeps a queue at the link. BBR, where it is the default, empties the queue and leaves the link
//! idle for milliseconds, up to 0.5% of the time at 1 Gbit/s.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::sockopt::set_tcp_congestion;
use softtimers::{Clock, Monotonic};

/// One end of the traffic.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Traffic {
    /// Answer
    Serve {
        /// At this address
        address: SocketAddr,
    },
    /// Ask
    Ask {
        /// The address of the server
        address: String,
        /// The number of pings, one after the other
        pings: usize,
        /// The time of the rate measurement after that; 0 for none
        millis: u64,
    },
}

/// Serves until it is killed, or asks and prints its progress: `begun`, `ended`, then the [`Answer`].
///
/// # Errors
/// The system's error.
pub fn run(traffic: &Traffic) -> Result<()> {
    match traffic {
        Traffic::Serve { address } => serve(&TcpListener::bind(address)?),
        Traffic::Ask { address, pings, millis } => {
            let answer = ask(address, *pings, Duration::from_millis(*millis), &mut |moment| {
                println!("{moment}");
            })?;
            println!("{}", serde_json::to_string(&answer)?);
            Ok(())
        }
    }
}

/// The findings.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Answer {
    /// Round trips in nanoseconds.
    pub trips: Vec<f64>,
    /// Payload bits a second, if requested.
    pub rate: Option<f64>,
}

/// An event of the rate measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Its approximate beginning.
    Begun,
    /// Its approximate end.
    Ended,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Moment::Begun { "begun" } else { "ended" })
    }
}

/// Answers every client, for ever.
///
/// # Errors
/// If it cannot listen any more.
pub fn serve(listener: &TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        // The client notices if it breaks off.
        thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0; 9];
    stream.read_exact(&mut first)?;
    let [what, millis @ ..] = first;
    let mut buffer = vec![0; BUFFER];
    if what == ECHO {
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            stream.write_all(&buffer[..read])?;
        }
    }
    let length = Duration::from_millis(u64::from_be_bytes(millis));
    let until = Monotonic.now() + WARM;
    while Monotonic.now() < until && stream.read(&mut buffer)? > 0 {}
    let (begin, mut bytes) = (Monotonic.now(), 0u64);
    let nanos = loop {
        let read = stream.read(&mut buffer)?;
        bytes += read as u64;
        let took = Monotonic.now().saturating_duration_since(begin);
        if read == 0 || took >= length {
            break took.as_nanos() as u64;
        }
    };
    stream.write_all(&[bytes.to_be_bytes(), nanos.to_be_bytes()].concat())?;
    // Data still under way must not reset the answer.
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Asks a [server](serve) at `address`: this many pings, and the rate over this time unless it is zero; `at` is called
/// when that begins and ends.
///
/// # Errors
/// If no server answers.
pub fn ask(address: &str, pings: usize, length: Duration, at: &mut dyn FnMut(Moment)) -> Result<Answer> {
    let mut trips = Vec::new();
    if pings > 0 {
        let mut stream = connected(address, ECHO, Duration::ZERO)?;
        let mut byte = [0];
        // The first ping finds everything cold.
        for number in 0..=pings {
            let begin = Monotonic.now();
            stream.write_all(&byte)?;
            stream.read_exact(&mut byte)?;
            let took = Monotonic.now().saturating_duration_since(begin).as_nanos() as f64;
            trips.extend((number > 0).then_some(took));
        }
    }
    let rate = if length.is_zero() { None } else { Some(rate(address, length, at)?) };
    Ok(Answer { trips, rate })
}

fn rate(address: &str, length: Duration, at: &mut dyn FnMut(Moment)) -> Result<f64> {
    let mut stream = connected(address, COUNT, length)?;
    let mut sending = stream.try_clone()?;
    let sender = thread::spawn(move || {
        let buffer = vec![7; BUFFER];
        // Ends when the answer has come.
        while sending.write_all(&buffer).is_ok() {}
    });
    softtimers_trials::command::pause(WARM);
    at(Moment::Begun);
    let mut found = [0; 16];
    let outcome = stream.read_exact(&mut found);
    at(Moment::Ended);
    stream.shutdown(Shutdown::Both).ok();
    sender.join().ok();
    outcome.context("no answer")?;
    let [bytes, nanos] =
        [0, 8].map(|at| u64::from_be_bytes(found[at..at + 8].try_into().unwrap_or_default()));
    Ok(bytes as f64 * 8e9 / nanos.max(1) as f64)
}

fn connected(address: &str, what: u8, length: Duration) -> Result<TcpStream> {
    let found =
        address.to_socket_addrs().with_context(|| address.to_owned())?.next().context("no address")?;
    let mut stream = TcpStream::connect(found).with_context(|| address.to_owned())?;
    stream.set_nodelay(true)?;
    set_tcp_congestion(&stream, "reno")?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let millis = (length.as_millis() as u64).to_be_bytes();
    stream.write_all(&[&[what][..], &millis].concat())?;
    Ok(stream)
}

const ECHO: u8 = b'e';
const COUNT: u8 = b's';
/// As in iperf3.
const BUFFER: usize = 128 << 10;
/// Until congestion control has found the rate, and queues are full.
const WARM: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_keeps_a_queue_at_the_link() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stream = connected(&address, COUNT, Duration::ZERO).unwrap();
        assert_eq!(rustix::net::sockopt::tcp_congestion(&stream).unwrap(), "reno");
    }

    #[test]
    fn pings_come_back_and_bytes_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || serve(&listener));
        let mut moments = vec![];
        let answer = ask(&address, 3, Duration::from_millis(20), &mut |moment| moments.push(moment)).unwrap();
        assert_eq!(answer.trips.len(), 3);
        assert!(answer.trips.iter().all(|&trip| trip > 0.0) && answer.rate.unwrap() > 0.0);
        assert_eq!(moments, [Moment::Begun, Moment::Ended]);
        let none = ask(&address, 0, Duration::ZERO, &mut |_| unreachable!()).unwrap();
        assert_eq!(none, Answer::default());
    }
}
