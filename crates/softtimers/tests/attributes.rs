//! A thread leaves a loop as it entered it: timer slack, slice, class, nice value and CPUs are
//! what they were, however the loop ended.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, gettid, sched_getaffinity};
use softtimers::{
    Clock, Config, EventLoop, Happening, Idle, LoopConfig, Monotonic, Slack, Slice, SoftTimers, Waiter,
};

/// The attributes of the calling thread, as the kernel tells them.
#[derive(PartialEq, Debug)]
struct Attributes {
    slack_ns: String,
    slice: Option<Duration>,
    /// Priority, nice value, real-time priority and class.
    scheduling: [String; 4],
    processors: CpuSet,
}

impl Attributes {
    fn read() -> Self {
        let thread = gettid().as_raw_nonzero();
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split_whitespace().collect();
        Attributes {
            // Not in the thread's own directory.
            slack_ns: std::fs::read_to_string(format!("/proc/{thread}/timerslack_ns")).unwrap(),
            slice: Slice::current().ok(),
            scheduling: [15, 16, 37, 38].map(|at| fields[at].to_owned()),
            processors: sched_getaffinity(None).unwrap(),
        }
    }

    fn slack(&self) -> u64 {
        self.slack_ns.trim().parse().unwrap()
    }
}

const SLICE: Duration = Duration::from_micros(200);

fn config(idle: Idle) -> LoopConfig {
    LoopConfig { idle, slice: Some(SLICE), ..LoopConfig::default() }
}

/// Runs `handler` once, as the handler of an event that came 100 µs after it was scheduled.
fn one_event(events: &mut EventLoop, handler: impl FnOnce()) {
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), Duration::from_micros(100), Slack::EXACT, ());
    assert!(matches!(events.next(&mut timers).unwrap(), Happening::Due(_)));
    handler();
}

#[test]
fn a_loop_that_ends_leaves_the_thread_as_it_was() {
    let before = Attributes::read();
    for idle in [Idle::park(), Idle::hybrid(), Idle::spin()] {
        let mut events = EventLoop::new(config(idle)).unwrap();
        one_event(&mut events, || {
            let during = Attributes::read();
            assert_eq!(during.slack(), 1);
            // Where the kernel grants no slice, the loop says so and changes nothing.
            let granted = (before.slice.is_some()).then_some(SLICE);
            assert_eq!(during.slice, granted);
            assert_eq!((&during.scheduling, &during.processors), (&before.scheduling, &before.processors));
        });
        assert_eq!(events.has_slice(), before.slice.is_some());
        assert!(events.has_slack());
        drop(events);
        assert_eq!(Attributes::read(), before);
    }
}

#[test]
fn a_panicking_handler_leaves_the_thread_as_it_was() {
    let before = Attributes::read();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut events = EventLoop::new(config(Idle::hybrid())).unwrap();
        one_event(&mut events, || {
            assert_eq!(Attributes::read().slack(), 1);
            resume_unwind(Box::new("the handler"));
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(Attributes::read(), before);
}

#[test]
fn a_waiter_and_guards_of_ones_own_nest() {
    let before = Attributes::read();
    let slice = Slice::hold(Duration::from_millis(1)).ok();
    let between = Attributes::read();
    let panicked = catch_unwind(|| {
        let waiter = Waiter::with_idle(Idle::spin());
        let events = EventLoop::new(config(Idle::park())).unwrap();
        assert!(waiter.has_slack() && Attributes::read().slack() == 1 && events.has_slack());
        resume_unwind(Box::new("between two events"));
    });
    assert!(panicked.is_err());
    assert_eq!(Attributes::read(), between);
    drop(slice);
    assert_eq!(Attributes::read(), before);
}

/// A loop's thread that dies of a panic takes nothing along that another thread inherits or misses.
#[test]
fn a_thread_that_dies_leaves_the_others_as_they_were() {
    let before = Attributes::read();
    let died = thread::spawn(|| {
        let mut events = EventLoop::new(config(Idle::spin())).unwrap();
        one_event(&mut events, || resume_unwind(Box::new("the handler")));
    });
    assert!(died.join().is_err());
    assert_eq!(Attributes::read(), before);
    assert_eq!(thread::spawn(Attributes::read).join().unwrap(), before);
}

/// A thread that a loop's thread starts inherits what the loop holds, as documented.
#[test]
fn a_thread_started_by_a_loop_inherits_slack_and_slice() {
    let before = Attributes::read();
    let events = EventLoop::new(config(Idle::park())).unwrap();
    let inherited = thread::spawn(Attributes::read).join().unwrap();
    assert_eq!((inherited.slack(), inherited.slice), (1, before.slice.map(|_| SLICE)));
    drop(events);
    assert_eq!(thread::spawn(Attributes::read).join().unwrap(), before);
}

#[test]
fn a_slice_that_no_kernel_grants_is_an_error() {
    let before = Attributes::read();
    let config = LoopConfig { slice: Some(Duration::from_micros(1)), ..LoopConfig::default() };
    let error = EventLoop::new(config).unwrap_err();
    assert_eq!(error.to_string(), "a slice of 1µs: 100us to 100ms are allowed");
    assert_eq!(Attributes::read(), before);
}
