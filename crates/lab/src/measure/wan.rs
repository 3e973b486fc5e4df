//! The path emulator: its delays, its rate, and how much it carries.
//!
//! ```text
//!   this process ──ping──▶ wan: 100 Mbit/s, 50 ms each way ──▶ an echo in this process
//! ```

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::figures::Bar;
use super::trials::{Killed, Program, object, signal};

/// A run of the emulator, and what was measured around it.
struct Run {
    report: Value,
    /// Round trips, in nanoseconds.
    trips: Vec<f64>,
}

impl Program {
    /// Round trips, the rate of a full link, and the limit.
    pub(super) fn wan(&self, pings: usize) -> Result<Vec<Bar>> {
        let path = "--rtt 100ms --rate 100Mbit --queue 50ms";
        let idle = self.around_wan(path, |address| ping(address, pings))?;
        let full = self.around_wan(path, |address| {
            let mut sender = self.command("send");
            sender.args([
                address,
                "--rate",
                "120Mbit",
                "--size",
                "1200",
                "--duration",
                "3s",
                "--catch-up",
                "all",
            ]);
            sender.arg("--json");
            object(&mut sender)?;
            Ok(Vec::new())
        })?;
        let mut test = self.command("wan");
        let test = object(test.args(["--self-test", "--json"]).stderr(Stdio::inherit()))?;
        let off = |nanos: Option<f64>| nanos.map(|nanos| (nanos - 100e6).abs() / 1e6);
        let late =
            |run: &Run| run.report["up"]["measured"]["lateness_ns"]["p99"].as_f64().map(|nanos| nanos / 1e6);
        // Of the network: 28 bytes of headers with each 1,200.
        let measured = &full.report["up"]["measured"];
        let was_full = measured["queue_drops"].as_f64().filter(|&drops| drops > 0.0);
        let rate = was_full.and(measured["rate_bps"].as_f64()).map(|bits| bits * 1_228.0 / 1_200.0);
        Ok(vec![
            Bar::at_most("wan, RTT 100 ms: p50 off by, ms".into(), 0.5, off(middle(idle.trips.clone()))),
            Bar::at_most("wan, RTT 100 ms: one way late at p99 by, ms".into(), 0.3, late(&idle)),
            Bar::at_most("wan, 100 Mbit/s full: one way late at p99 by, ms".into(), 0.3, late(&full)),
            Bar::at_most(
                "wan, 100 Mbit/s full: rate off by".into(),
                0.005,
                rate.map(|rate| (rate / 100e6 - 1.0).abs()),
            ),
            Bar::at_least("wan: carried without a loss of its own, Mbit/s".into(), 200.0, {
                test["limit_bps"].as_f64().map(|bits| bits / 1e6)
            }),
        ])
    }

    /// An emulator in front of an echo, while something is done to its address.
    fn around_wan(&self, path: &str, body: impl FnOnce(&str) -> Result<Vec<f64>>) -> Result<Run> {
        let echo = UdpSocket::bind("127.0.0.1:0")?;
        let to = echo.local_addr()?.to_string();
        std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            // Ends with this process.
            while let Ok((length, from)) = echo.recv_from(&mut buffer) {
                let _ = echo.send_to(&buffer[..length], from);
            }
        });
        let mut command = self.command("wan");
        command.args(["--listen", "127.0.0.1:0", "--to", &to, "--json", "--duration", "60s"]);
        command.args(path.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Killed(Some(command.spawn()?));
        let running = child.0.as_mut().context("it was just started")?;
        let mut line = String::new();
        BufReader::new(running.stderr.take().context("piped")?).read_line(&mut line)?;
        let address = line.split([' ', ',']).nth(2).filter(|_| line.starts_with("listening on "));
        let Some(address) = address else { bail!("the emulator did not start: {line}") };
        let trips = body(address)?;
        signal(running.id(), "TERM")?;
        let output = child.0.take().context("still there")?.wait_with_output()?;
        ensure!(output.status.success(), "the emulator ended with {}", output.status);
        Ok(Run { report: serde_json::from_slice(&output.stdout)?, trips })
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(self.path());
        command.args(["--with-parent", &std::process::id().to_string(), subcommand]);
        command
    }
}

/// Short packets there and back, one after the other.
#[expect(clippy::disallowed_methods, reason = "round trips are measured from outside")]
fn ping(address: &str, pings: usize) -> Result<Vec<f64>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut trips = Vec::new();
    for _ in 0..pings {
        let begin = Instant::now();
        socket.send(&[0; 32])?;
        socket.recv(&mut [0; 64])?;
        trips.push(begin.elapsed().as_nanos() as f64);
    }
    Ok(trips)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
