//! A run that SIGTERM ends leaves its thread as it found it: processors, timer slack and slice. The run
//! is in this process, since a process that has ended has no attributes to compare.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::{CpuSet, current_timer_slack, sched_getaffinity};
use softtimers::Slice;
use softtimers_cli::args::{Cli, Command};
use softtimers_cli::plan::SendPlan;
use softtimers_cli::send::measure;

#[derive(PartialEq, Debug)]
struct Attributes {
    processors: CpuSet,
    slack_ns: u64,
    slice: Option<Duration>,
    /// Priority, nice value, real-time priority and class.
    scheduling: [String; 4],
}

impl Attributes {
    fn read() -> Self {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split_whitespace().collect();
        Attributes {
            processors: sched_getaffinity(None).unwrap(),
            slack_ns: current_timer_slack().unwrap(),
            slice: Slice::current().ok(),
            scheduling: [15, 16, 37, 38].map(|at| fields[at].to_owned()),
        }
    }
}

/// Whether this process has a handler for `signal`.
fn is_caught(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

fn pause(length: Duration) {
    let (_never_used, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(length);
}

/// One test and one signal: a second SIGTERM would end the process, as it should.
#[test]
fn a_run_that_sigterm_ends_leaves_the_thread_as_it_was() {
    common::watch();
    let before = Attributes::read();
    let one = (0..CpuSet::MAX_CPU).find(|&number| before.processors.is_set(number)).unwrap().to_string();
    // Longer than this test is allowed to take.
    let words =
        ["softtimers", "send", "127.0.0.1:9", "--no-handshake", "--interval", "200us", "--duration", "100s"];
    let more = ["--cpu", &one, "--sched-slice", "300us", "--idle", "hybrid", "--cpu-budget", "20%"];
    let Command::Send(args) = Cli::parse_from(words.into_iter().chain(more)).command else {
        unreachable!("it says send")
    };
    let plan = SendPlan::new(&args).unwrap();

    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Before the run listens for signals, this one would end the process.
            let listens = (0..2_000).any(|_| {
                pause(Duration::from_millis(5));
                is_caught(Signal::TERM)
            });
            assert!(listens, "the run did not begin within 10 s");
            // Long beside a pause of the machine, which counts as polled away if it comes in the middle of a poll.
            pause(Duration::from_secs(1));
            kill_process(getpid(), Signal::TERM).unwrap();
        });
        measure(&plan).unwrap()
    });
    assert!(outcome.broke_off.is_none() && outcome.report.sent > 0, "{outcome:?}");
    // Of 20% and one poll, however long it was held up; then what came due meanwhile was late by as much.
    let held_up = outcome.report.late_ns.max > Some(100_000_000);
    let share = outcome.report.polled.share;
    assert!(share.is_some_and(|share| share < 0.5 || held_up), "{:?}", outcome.report.polled);
    let granted = outcome.fallbacks.iter().all(|fallback| !fallback.contains("--sched-slice"));
    assert_eq!(granted, before.slice.is_some(), "{:?}", outcome.fallbacks);
    assert_eq!(Attributes::read(), before);
}
