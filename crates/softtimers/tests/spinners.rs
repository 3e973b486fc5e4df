//! Spinning, on real threads: at most one of a process at a time, within its budget, and none of a
//! real-time class. CPU time is the kernel's account, compared with the time that has passed.

use std::net::UdpSocket;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers::{
    Clock, Config, EventLoop, Happening, HeldBack, Idle, LoopConfig, Monotonic, Percent, PollBudget, Polling,
    Ready, Slack, SoftTimers, Timestamp, Waiter,
};

/// The work of one thread's loop.
#[derive(Debug)]
struct Done {
    cpu: Duration,
    wall: Duration,
    polling: Polling,
    held_back: Option<HeldBack>,
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Waits for an event every `interval`, for so long at least, and until what was done is `enough`; not for ever.
fn spin(idle: Idle, interval: Duration, length: Duration, enough: impl Fn(&Done) -> bool) -> Done {
    let mut events = EventLoop::new(LoopConfig { idle, ..LoopConfig::default() }).unwrap();
    let mut timers = SoftTimers::new(Config::default());
    let (begin, cpu) = (Monotonic.now(), cpu_time());
    timers.schedule(begin, interval, Slack::EXACT, ());
    loop {
        let done = Done {
            cpu: cpu_time() - cpu,
            wall: Monotonic.now().saturating_duration_since(begin),
            polling: events.polling(),
            held_back: events.held_back(),
        };
        if done.wall >= length && (enough(&done) || done.wall >= TIME_TO_MAKE_UP) {
            return done;
        }
        assert!(matches!(events.next(&mut timers).unwrap(), Happening::Due(_)));
        timers.schedule(Monotonic.now(), interval, Slack::EXACT, ());
    }
}

/// Time in which a CPU that was taken away counts as busy-polled: what a loop that keeps its budget has made up in
/// the end, and one that does not never will.
const TIME_TO_MAKE_UP: Duration = Duration::from_secs(20);

/// Spinning loops share one word per process, so the tests of this file take turns.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Each of four threads is told to spin all the time. Together they use one CPU, not all there
/// are; the sum can only be smaller where others compete.
#[test]
fn at_most_one_of_four_threads_spins() {
    let _turn = alone();
    let start = Barrier::new(4);
    let idle = Idle::spin().within(PollBudget::UNLIMITED);
    let run = || {
        start.wait();
        spin(idle, Duration::from_millis(5), Duration::from_millis(300), |_| true)
    };
    let done: Vec<Done> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let cpu: Duration = done.iter().map(|done| done.cpu).sum();
    let wall = done.iter().map(|done| done.wall).max().unwrap();
    assert!(cpu < wall * 14 / 10, "{cpu:?} of CPU time in {wall:?}: {done:#?}");
    assert!(done.iter().any(|done| done.held_back == Some(HeldBack::AnotherSpins)), "{done:#?}");
    let polled: Duration = done.iter().map(|done| done.polling.time).sum();
    assert!(polled > wall / 4, "nobody spun: {done:#?}");
}

/// The spinner goes, by a panic at that: another thread spins.
#[test]
fn a_spinner_that_died_is_followed_by_another() {
    let _turn = alone();
    let died = thread::spawn(|| {
        let mut events = EventLoop::new(LoopConfig { idle: Idle::spin(), ..LoopConfig::default() }).unwrap();
        let mut timers = SoftTimers::new(Config::default());
        let patience = Monotonic.now() + TIME_TO_MAKE_UP;
        // An event that is due before it is looked for needs no polling.
        while events.polling().time.is_zero() {
            assert!(Monotonic.now() < patience, "nothing is polled for: {events:?}");
            timers.schedule(Monotonic.now(), Duration::from_millis(1), Slack::EXACT, ());
            events.next(&mut timers).unwrap();
        }
        std::panic::resume_unwind(Box::new("the spinner"));
    });
    assert!(died.join().is_err());
    let polls = |done: &Done| done.polling.time > Duration::ZERO;
    let next = spin(Idle::spin(), Duration::from_millis(1), Duration::from_millis(5), polls);
    assert!(polls(&next) && next.held_back.is_none(), "{next:?}");
}

/// A tenth is allowed; others may interrupt a look, and it lasts longer. Without a budget it would be all.
#[test]
fn a_loop_polls_no_more_than_its_budget() {
    let _turn = alone();
    let tenth = PollBudget::new(Percent::new(10).unwrap());
    let within = |done: &Done| {
        done.polling.forced_sleeps > 0 && done.polling.time < done.wall / 2 && done.cpu < done.wall / 2
    };
    let (interval, length) = (Duration::from_millis(2), Duration::from_millis(400));
    let done = spin(Idle::spin().within(tenth), interval, length, within);
    assert!(within(&done), "{done:?}");
}

/// The same rules in a waiter.
#[test]
fn a_waiter_polls_no_more_than_its_budget() {
    let _turn = alone();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tenth = PollBudget::new(Percent::new(10).unwrap());
    let mut waiter = Waiter::with_idle(Idle::spin().within(tenth));
    let mut timers = SoftTimers::new(Config::default());
    let begin = Monotonic.now();
    let passed = |now: Timestamp| now.saturating_duration_since(begin);
    let within = |polling: Polling, wall: Duration| {
        polling.forced_sleeps > 0 && polling.time > Duration::ZERO && polling.time < wall / 2
    };
    let done = loop {
        let (polling, wall) = (waiter.polling(), passed(Monotonic.now()));
        if wall >= Duration::from_millis(400) && (within(polling, wall) || wall >= TIME_TO_MAKE_UP) {
            break (polling, wall);
        }
        timers.schedule(Monotonic.now(), Duration::from_millis(2), Slack::EXACT, ());
        assert!(matches!(waiter.recv_from(&socket, &mut [0; 8], &mut timers).unwrap(), Ready::Due(_)));
    };
    assert!(within(done.0, done.1), "{done:?}");
    assert_eq!(waiter.held_back(), None);
}
