//! Whether the meter counts what `perf` counts at the same tracepoints, under load.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Command, Stdio};

use softtimers_bench::pacing::record::Check;
use softtimers_bpf::{Probe, ProbeConfig, Source};

use crate::server::{Connections, Server};
use crate::{Bench, Done};

/// Sources of one tracepoint each, and its name for `perf`; and the kernel's own counter of switches, which is that of `/proc/stat`:
/// a kernel may keep switches away from some threads from `perf` at their tracepoint (docs/benchmarks.md).
const EVENTS: [(Source, &str); 5] = [
    (Source::Syscall, "raw_syscalls:sys_exit"),
    (Source::SoftInterrupt, "irq:softirq_exit"),
    (Source::NetworkPoll, "napi:napi_poll"),
    (Source::Switch, "sched:sched_switch"),
    (Source::Switch, "context-switches"),
];

pub(crate) fn run(bench: &mut Bench) -> Done<()> {
    println!("\n### Trigger states of 5 s, beside `perf stat`\n");
    let Some(server) = Server::start(bench, 1)? else {
        println!("skipped: this needs nginx and wrk");
        return Ok(());
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
            println!("skipped: this needs perf");
            return Ok(());
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
    println!("| tracepoint | perf | the meter | apart |\n|---|---|---|---|");
    for (source, name) in EVENTS {
        let theirs = text
            .lines()
            .find(|line| line.contains(name))
            .and_then(|line| line.split(',').next()?.parse().ok());
        let ours: u64 = counted.processors.iter().map(|processor| processor.of(source).count).sum();
        let theirs = theirs.filter(|&theirs: &u64| theirs > 0);
        let apart = theirs.map(|theirs| (ours as f64 / theirs as f64 - 1.0).abs());
        match theirs.zip(apart) {
            None => println!("| {name} | not counted | {ours} | |"),
            Some((theirs, apart)) => println!("| {name} | {theirs} | {ours} | {:.2}% |", apart * 100.0),
        }
        bench.checks.push(Check::at_most(format!("{name}: the meter and perf apart"), 0.01, apart));
    }
    if !output.status.success() {
        return Err(format!("perf: {}", text.trim()).into());
    }
    Ok(())
}
