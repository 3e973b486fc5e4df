//! Whether the meter counts what `perf` counts at the same tracepoints, under load.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Command, Stdio};

use softtimers_bpf::{Probe, ProbeConfig, Source};
use softtimers_lab::bench::Done;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::Table;

use crate::server::{Connections, Server};
use crate::{Bench, skipped};

/// Sources of one tracepoint each, and its name for `perf`; and the kernel's own counter of switches, which is that of `/proc/stat`:
/// a kernel may keep switches away from some threads from `perf` at their tracepoint (docs/measurements.md).
const EVENTS: [(Source, &str); 5] = [
    (Source::Syscall, "raw_syscalls:sys_exit"),
    (Source::SoftInterrupt, "irq:softirq_exit"),
    (Source::NetworkPoll, "napi:napi_poll"),
    (Source::Switch, "sched:sched_switch"),
    (Source::Switch, "context-switches"),
];

/// Trigger states of 5 s, beside `perf stat`.
pub(crate) fn run(bench: &Bench) -> Done<Vec<Table>> {
    let Some(server) = Server::start(bench, 1)? else {
        return Ok(vec![skipped("agree", "this needs nginx and wrk")]);
    };
    let _load = server.load(bench, Connections::Kept)?;
    let mut sources = EVENTS.map(|(source, _)| source).to_vec();
    sources.dedup();
    let probe = Probe::start(&ProbeConfig { samples: 0, sources, ..ProbeConfig::default() })?;
    let events: Vec<&str> = EVENTS.iter().map(|(_, name)| *name).collect();
    // It counts while its command runs, which says when that begins and ends.
    let perf = Command::new("perf")
        .args(["stat", "-a", "-x", ",", "-e", &events.join(","), "--", "sh", "-c", "echo; sleep 5; echo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut perf = match perf {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return Ok(vec![skipped("agree", "this needs perf")]);
        }
        perf => perf?,
    };
    let mut edges = BufReader::new(perf.stdout.take().ok_or("perf has no output")?);
    edges.read_line(&mut String::new())?;
    let before = probe.intervals()?;
    edges.read_line(&mut String::new())?;
    let counted = probe.intervals()?.since(&before);
    let output = perf.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let columns = [("tracepoint", 0), ("perf", 0), ("the meter", 0), ("apart %", 2)];
    let mut table = Table::new("agree", &columns);
    for (source, name) in EVENTS {
        let theirs = text
            .lines()
            .find(|line| line.contains(name))
            .and_then(|line| line.split(',').next()?.parse().ok());
        let ours: u64 = counted.processors.iter().map(|processor| processor.of(source).count).sum();
        let theirs = theirs.filter(|&theirs: &u64| theirs > 0).map(|theirs| theirs as f64);
        let apart = theirs.map(|theirs| (ours as f64 / theirs - 1.0).abs());
        table.row([
            name.into(),
            theirs.into(),
            (ours as f64).into(),
            apart.map(|apart| apart * 100.0).into(),
        ]);
        table.bar(Bar::at_most(format!("{name}: the meter and perf apart"), 0.01, apart));
    }
    if !output.status.success() {
        return Err(format!("perf: {}", text.trim()).into());
    }
    Ok(vec![table])
}
