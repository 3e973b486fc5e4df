//! `iperf3 -u -P`: parallel streams from one process, each paced at its rate by its own timer.
//!
//! It is judged by its own figures, CPU and losses. Its receiver reports no gaps, and it has at most 128 streams.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Load;

/// Says whether it is installed and supports this number of streams.
pub(crate) fn can(load: &Load) -> bool {
    let version =
        Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    load.common_rate().is_some() && load.flows <= 128 && version.is_ok_and(|status| status.success())
}

/// Sends the load from the first CPU to the second, and returns its own figures under the command's names.
pub(crate) fn run(load: &Load, processors: Option<[usize; 2]>) -> Result<Value> {
    let kept = |at: usize| processors.map_or(vec![], |both| vec!["-A".to_owned(), both[at].to_string()]);
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "-p", PORT]).args(kept(1)).stdout(Stdio::null());
    let mut server = server.spawn().context("iperf3 -s")?;
    let sent = client(load, &kept(0));
    if sent.is_err() {
        // It still waits for another client.
        let _ = server.kill();
    }
    server.wait()?;
    sent
}

fn client(load: &Load, kept: &[String]) -> Result<Value> {
    let Load { flows, bytes, time, .. } = load;
    let bits = load.rate(0) * bytes * 8;
    let line =
        format!("-u -c 127.0.0.1 -p {PORT} -P {flows} -b {bits} -l {bytes} -t {} --json", time.as_secs());
    let mut attempts = 0;
    let found: Value = loop {
        let output = Command::new("iperf3").args(line.split(' ')).args(kept).output()?;
        let found: Value = serde_json::from_slice(&output.stdout)?;
        attempts += 1;
        // The server may not listen yet.
        match found.get("error") {
            None => break found,
            Some(error) if attempts == ATTEMPTS => bail!("iperf3: {error}"),
            Some(_) => thread::park_timeout(Duration::from_millis(50)),
        }
    };
    let number = |pointer: &str| found.pointer(pointer).and_then(Value::as_f64);
    let (share, packets) = (number("/end/cpu_utilization_percent/host_total"), number("/end/sum/packets"));
    let (share, packets) = share.zip(packets).context("iperf3 tells no packets")?;
    let cost = share / 100.0 * time.as_secs_f64() * 1e9 / packets.max(1.0);
    Ok(json!({
        "sent": { "cpu_share": share / 100.0, "cpu_ns_per_packet": cost },
        "received": { "lost": number("/end/sum/lost_packets") },
    }))
}

const PORT: &str = "52019";
/// Five seconds in all.
const ATTEMPTS: u32 = 100;
