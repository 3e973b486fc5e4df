//! What loads the server: `wrk`, or clients of our own.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use softtimers_lab::server::client::Load;

/// A tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Tool {
    Wrk,
    Own,
}

/// What it found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Outcome {
    /// Answers a second.
    pub(crate) rate: f64,
    /// Microseconds from request to answer.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Anything but a whole answer of status 200.
    pub(crate) errors: f64,
}

impl Tool {
    /// `wrk` where it is.
    pub(crate) fn installed() -> Self {
        let found = Command::new("wrk").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_ok() { Tool::Wrk } else { Tool::Own }
    }

    /// Loads the server at `address` from this thread's processor.
    pub(crate) fn load(
        self,
        address: SocketAddr,
        connections: usize,
        keep_alive: bool,
        time: Duration,
    ) -> Result<Outcome, Box<dyn Error>> {
        match self {
            Tool::Own => {
                let answered = Load { clients: vec![(address, connections)], keep_alive, time }.run()?;
                let micros = |q| answered.latency.quantile(q).map_or(f64::NAN, |nanos| nanos as f64 / 1e3);
                let errors = answered.errors as f64;
                Ok(Outcome { rate: answered.rate(), p50: micros(0.5), p99: micros(0.99), errors })
            }
            Tool::Wrk => {
                let mut command = Command::new("wrk");
                // It counts whole seconds.
                let seconds = time.as_secs().max(1);
                command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--latency"]);
                if !keep_alive {
                    command.args(["-H", "Connection: close"]);
                }
                let output = command.arg(format!("http://{address}/file")).output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                said(&text).ok_or_else(|| format!("wrk said {text:?}").into())
            }
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Wrk => "wrk",
            Tool::Own => "clients of our own",
        })
    }
}

/// What `wrk --latency` says.
fn said(text: &str) -> Option<Outcome> {
    let after = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    let errors = after("Socket errors:").map_or(0.0, |list| {
        list.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<f64>().ok()).sum()
    });
    let others = after("Non-2xx or 3xx responses:").map_or(Some(0.0), |number| number.parse().ok())?;
    Some(Outcome {
        rate: after("Requests/sec:")?.parse().ok()?,
        p50: micros(after("50%")?)?,
        p99: micros(after("99%")?)?,
        errors: errors + others,
    })
}

fn micros(time: &str) -> Option<f64> {
    let at = time.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = time.split_at(at);
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}
