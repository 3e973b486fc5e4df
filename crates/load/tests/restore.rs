//! A run that SIGTERM ends leaves its thread as it found it: CPUs, timer slack and slice. The run
//! is in this process, since a process that has ended has no attributes to compare.

use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::{CpuSet, current_timer_slack, sched_getaffinity};
use softtimers::Slice;
use softtimers_core::{Idle, Percent, PollBudget, Rate};
use softtimers_load::engines::Timer;
use softtimers_load::plan::SendPlan;
use softtimers_load::send::measure;
use softtimers_load::traffic::{End, Traffic};
use softtimers_measure::processor::Processor;

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

/// Says whether this process has a handler for `signal`.
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
    let before = Attributes::read();
    let one = (0..CpuSet::MAX_CPU).find(|&number| before.processors.is_set(number)).unwrap();
    // Longer than this test is allowed to take.
    let end = End { duration: Some(Duration::from_secs(100)), count: None };
    let traffic = Traffic { end, ..Traffic::new(Rate::every(Duration::from_micros(200)).unwrap()) };
    let budget = PollBudget::new(Percent::new(20).unwrap());
    let plan = SendPlan {
        cpu: Some(Processor::new(one).unwrap()),
        sched_slice: Some(Duration::from_micros(300)),
        idle: Some(Idle::hybrid().within(budget)),
        no_handshake: true,
        ..SendPlan::new("127.0.0.1:9".parse().unwrap(), traffic, Timer::default())
    };

    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Before the run listens for signals, this one would end the process.
            let listens = (0..2_000).any(|_| {
                pause(Duration::from_millis(5));
                is_caught(Signal::TERM)
            });
            assert!(listens, "the run did not begin within 10 s");
            // Long beside a pause of the machine, which counts as busy-polled if it comes in the middle of a poll.
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
