//! The path emulator: its delays, its rate, and its capacity.
//!
//! ```text
//!   this process ──ping──▶ wan: 100 Mbit/s, 50 ms each way ──▶ an echo in this process
//! ```

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use softtimers_measure::estimate::Estimate;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;

use super::Effort;
use crate::bench::Done;
use softtimers_trials::command::{Program, announced};

/// Measures round trips, the rate of a full link, and the limit.
pub(super) fn wan(effort: &Effort) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let path = "--rtt 100ms --rate 100Mbit --queue 50ms";
    let mut trips = Vec::new();
    let idle = around(&program, path, |address| ping(address, effort.of(100, 10), &mut trips))?;
    let full = around(&program, path, |address| {
        let flags = "--rate 120Mbit --size 1200 --duration 3s --catch-up all --json";
        program.object(&format!("send {address} {flags}")).map(drop)
    })?;
    let test = program.object("wan --self-test --json")?;
    let millis = |nanos: &Value| nanos.as_f64().map(|nanos| nanos / 1e6);
    let late = |report: &Value| millis(&report["up"]["measured"]["lateness_ns"]["p99"]);
    // The network's rate: 28 bytes of headers with each 1,200.
    let measured = &full["up"]["measured"];
    let was_full = measured["queue_drops"].as_f64().filter(|&drops| drops > 0.0);
    let rate = was_full.and(measured["rate_bps"].as_f64()).map(|bits| bits * 1_228.0 / 1_200.0);
    let off = Estimate::from_values(trips).map(|nanos| (nanos.median - 100e6).abs() / 1e6);
    let limit = test["limit_bps"].as_f64().map(|bits| bits / 1e6);
    let mut table = Table::new("wan", &[("figure", 0), ("measured", 3)]);
    let figures = [
        ("wan, RTT 100 ms: p50 off by, ms", 0.5, off),
        ("wan, RTT 100 ms: one way late at p99 by, ms", 0.3, late(&idle)),
        ("wan, 100 Mbit/s full: one way late at p99 by, ms", 0.3, late(&full)),
        ("wan, 100 Mbit/s full: rate off by", 0.005, rate.map(|rate| (rate / 100e6 - 1.0).abs())),
    ];
    for (figure, most, measured) in figures {
        table.row([figure.into(), measured.into()]);
        table.bar(Bar::at_most(figure, most, measured));
    }
    let figure = "wan: carried without a loss of its own, Mbit/s";
    table.row([figure.into(), limit.into()]);
    table.bar(Bar::at_least(figure, 200.0, limit));
    Ok(vec![table])
}

/// Runs `body` with the address of an emulator in front of an echo; returns the emulator's report.
fn around(program: &Program, path: &str, body: impl FnOnce(&str) -> Result<()>) -> Result<Value> {
    let echo = UdpSocket::bind("127.0.0.1:0")?;
    let to = echo.local_addr()?.to_string();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        // Ends with this process.
        while let Ok((length, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..length], from);
        }
    });
    let words = ["wan", "--listen", "127.0.0.1:0", "--to", &to, "--json", "--duration", "60s"];
    let (child, line) = announced(program.command(&words).args(path.split(' ')), "listening on ")?;
    let address = line.split([' ', ',']).next().unwrap_or_default();
    body(address)?;
    child.ended()
}

/// Sends short packets there and back, one after the other; returns the nanoseconds of each.
#[expect(clippy::disallowed_methods, reason = "round trips are measured from outside")]
fn ping(address: &str, pings: usize, trips: &mut Vec<f64>) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    for _ in 0..pings {
        let begin = Instant::now();
        socket.send(&[0; 32])?;
        socket.recv(&mut [0; 64])?;
        trips.push(begin.elapsed().as_nanos() as f64);
    }
    Ok(())
}
