//! `Timers`, clock, timers and backup in one: what is due, on the real clock, by a real poll(2), and under stalls.

#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softtimers::prelude::*;
use softtimers::{NotPending, TriggerState};
use softtimers_linux::clock::cpu_time;

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Says whether the descriptor becomes readable within `timeout`; `None` waits for as long as it takes.
fn readable<E>(timers: &Timers<E>, timeout: Option<Duration>) -> bool {
    let timeout = timeout.map(|timeout| Timespec::try_from(timeout).unwrap());
    poll(&mut [PollFd::new(timers, PollFlags::IN)], timeout.as_ref()).unwrap() == 1
}

fn work_until(time: Timestamp) {
    while Monotonic.now() < time {}
}

/// The whole turn's events.
fn turn<E>(timers: &mut Timers<E>) -> Vec<E> {
    std::iter::from_fn(|| timers.next_due().map(|due| due.event)).collect()
}

/// Timers with an event for each of these times, in microseconds from the time that is returned. All are set before the first
/// is due, for one that is due when it is set comes behind others: a machine that stands still meanwhile has another try.
fn set_in_time(after: &[u64]) -> (Timers<u64>, Timestamp) {
    let earliest = micros(after.iter().copied().min().unwrap());
    for _ in 0..1_000 {
        let mut timers = Timers::new().unwrap();
        let start = Monotonic.now();
        for &after in after {
            timers.at_within(start + micros(after), Slack::EXACT, after);
        }
        if Monotonic.now() < start + earliest {
            return (timers, start);
        }
    }
    panic!("{} timers are never set within {earliest:?}", after.len());
}

#[test]
fn a_busy_loop_finds_events_in_order_and_never_early() {
    let (mut timers, start) = set_in_time(&[900, 100, 500, 300, 700]);
    let mut order = Vec::new();
    while !timers.is_empty() {
        if let Some(due) = timers.next_due() {
            assert_eq!(due.due, start + micros(due.event));
            assert!(due.due + due.lateness <= Monotonic.now());
            order.push(due.event);
        }
    }
    assert_eq!(order, [100, 300, 500, 700, 900]);
    assert_eq!(timers.stats().fired[TriggerState::HandlerExit], 5);
    assert_eq!(timers.lateness().count(), 5);
    assert_eq!((timers.next_deadline(), timers.timeout()), (None, None));
}

/// An event that a handler schedules, even for now, is of the next turn.
#[test]
fn a_turn_ends_and_its_handlers_may_schedule() {
    let mut timers = Timers::new().unwrap();
    timers.after(Duration::ZERO, 0);
    for round in 0..100 {
        let mut turn = Vec::new();
        while turn.is_empty() {
            while let Some(due) = timers.next_due() {
                timers.at(Timestamp::ZERO, due.event + 1);
                turn.push(due.event);
            }
        }
        assert_eq!(turn, [round]);
        assert_eq!(timers.timeout(), Some(Duration::ZERO));
    }
}

#[test]
fn instants_and_timestamps_name_the_same_times() {
    let mut timers = Timers::new().unwrap();
    let now = Monotonic.now();
    timers.at_within(now + micros(200), Slack::EXACT, 2);
    timers.at_within(Monotonic::instant_of(now + micros(100)).unwrap(), Slack::EXACT, 1);
    timers.at(Monotonic::instant_of(Timestamp::ZERO).unwrap_or(Monotonic::instant_of(now).unwrap()), 0);
    let mut seen = Vec::new();
    while let Some(due) = timers.wait().unwrap() {
        seen.push((due.event, due.due));
    }
    // Their order is that of the times unless one of them is due when the next is set.
    seen.sort_unstable();
    assert_eq!(seen[1..], [(1, now + micros(100)), (2, now + micros(200))]);
    assert!(seen[0].0 == 0 && seen[0].1 <= now, "{seen:?}");
}

#[test]
fn poll_wakes_up_when_something_is_due_and_not_otherwise() {
    let mut timers = Timers::new().unwrap();
    assert!(!readable(&timers, Some(Duration::ZERO)), "nothing is pending");
    for delay in [50, 400, 1_000] {
        let due = Monotonic.now() + micros(delay);
        timers.at_within(due, Slack::EXACT, delay);
        assert!(readable(&timers, None));
        assert!(Monotonic.now() >= due, "never early");
        assert_eq!(turn(&mut timers), [delay]);
        assert!(!readable(&timers, Some(Duration::from_millis(1))), "it is disarmed after its turn");
    }
    let backup = timers.stats().fired[TriggerState::Backup];
    assert_eq!(backup, 3, "found by the descriptor");
}

/// The descriptor was handed out before, as to epoll: what is scheduled later, and earlier than what is armed, wakes up, too.
#[test]
fn what_is_scheduled_after_the_last_check_wakes_poll_up() {
    let mut timers = Timers::new().unwrap();
    let descriptor = timers.as_raw_fd();
    timers.after(Duration::from_secs(3_600), "in an hour");
    assert!(timers.next_due().is_none());
    timers.after(micros(300), "soon");
    let borrowed = timers.as_fd();
    assert_eq!(borrowed.as_raw_fd(), descriptor);
    poll(&mut [PollFd::from_borrowed_fd(borrowed, PollFlags::IN)], None).unwrap();
    let mut seen = turn(&mut timers);
    while seen.is_empty() {
        seen = turn(&mut timers);
    }
    assert_eq!(seen, ["soon"]);
    let idle = timers.after(Duration::from_secs(7_200), "idle");
    timers.reset(idle, micros(200)).unwrap();
    assert!(readable(&timers, None));
}

/// A program that leaves its turn sleeps over none of it, nor over what it scheduled meanwhile.
#[test]
fn a_turn_that_was_left_wakes_poll_up() {
    let mut timers = Timers::new().unwrap();
    assert!(!readable(&timers, Some(Duration::ZERO)));
    let slack = Slack::within(Duration::from_secs(3_600));
    for event in 0..3 {
        timers.at_within(Timestamp::ZERO, slack, event);
    }
    assert_eq!(timers.next_due().map(|due| due.event), Some(0));
    timers.after(micros(200), 3);
    assert_eq!(timers.timeout(), Some(Duration::ZERO), "two are due");
    assert!(readable(&timers, None), "the new one");
    assert_eq!(turn(&mut timers), [1, 2]);
    assert!(readable(&timers, None));
    assert_eq!(turn(&mut timers), [3]);
}

/// An armed time that is no longer wanted costs a wake-up; of many timers, one for each at the most.
#[test]
fn what_was_cancelled_does_not_keep_waking_poll_up() {
    for (others, most) in [(0, 1), (3, 1), (500, 20)] {
        let mut timers = Timers::new().unwrap();
        for _ in 0..others {
            timers.after(Duration::from_secs(3_600), ());
        }
        let cancelled: Vec<_> = (1..=20).map(|n| timers.after(micros(2_000 + n * 100), ())).collect();
        readable(&timers, Some(Duration::ZERO));
        for timer in cancelled {
            timers.cancel(timer);
        }
        let mut woken = 0;
        while readable(&timers, Some(Duration::from_millis(5))) {
            woken += 1;
            assert!(timers.next_due().is_none() && woken <= most, "wake-up {woken}, {others} others");
        }
    }
}

/// Nor does it keep a wait from sleeping.
#[test]
fn what_was_cancelled_is_not_waited_for() {
    let mut timers = Timers::new().unwrap();
    for _ in 0..500 {
        timers.after(Duration::from_secs(3_600), false);
    }
    for n in 1..=20 {
        let timer = timers.after(micros(n * 100), false);
        timers.cancel(timer);
    }
    let (start, used) = (Monotonic.now(), cpu_time());
    timers.after(Duration::from_millis(100), true);
    assert!(timers.wait().unwrap().is_some_and(|due| due.event));
    let (took, used) = (Monotonic.now().saturating_duration_since(start), cpu_time() - used);
    assert!(used < took / 4, "{used:?} of {took:?} were polled");
}

#[test]
fn ticks_are_even_and_a_stall_is_made_up_without_a_burst() {
    const INTERVAL: Duration = micros(200);
    let mut timers = Timers::new().unwrap();
    timers.every(INTERVAL, ());
    let (mut ticks, mut last) = (Vec::new(), Timestamp::ZERO);
    while ticks.len() < 60 {
        let Some(due) = timers.next_due() else { continue };
        let now = Monotonic.now();
        let gap = now.saturating_duration_since(last);
        assert!(ticks.is_empty() || gap >= INTERVAL * 9 / 16, "{gap:?} after the tick before");
        last = due.due + due.lateness;
        ticks.push(due.due);
        if ticks.len() == 20 {
            work_until(now + Duration::from_millis(3)); // 15 ticks
        }
    }
    let places: Vec<_> = ticks.iter().map(|tick| tick.saturating_duration_since(ticks[0])).collect();
    assert!(places.iter().all(|place| place.as_nanos() % INTERVAL.as_nanos() == 0), "{places:?}");
    assert!(places.is_sorted_by(|a, b| a < b));
    if timers.skipped() == 0 {
        assert_eq!(places[59], INTERVAL * 59, "all were made up");
    }
}

/// Ticks further back than 10 ms are skipped, and their number is that of the places left out.
#[test]
fn a_long_stall_skips_ticks_and_counts_them() {
    const INTERVAL: Duration = micros(500);
    let mut timers = Timers::new().unwrap();
    timers.every(INTERVAL, ());
    let first = timers.wait().unwrap().unwrap();
    work_until(Monotonic.now() + Duration::from_millis(100));
    let (late, next) = (timers.wait().unwrap().unwrap(), timers.wait().unwrap().unwrap());
    assert_eq!(late.due.saturating_duration_since(first.due).as_nanos() % INTERVAL.as_nanos(), 0);
    assert!(late.lateness >= Duration::from_millis(99), "{late:?}");
    let places = next.due.saturating_duration_since(late.due).as_nanos() / INTERVAL.as_nanos();
    assert!(places >= 100, "of about 200, all but 10 ms are skipped: {places}");
    // The next tick has been asked for since, and what it skipped is counted, too.
    assert!(u128::from(timers.skipped()) >= places - 1);
}

#[test]
fn what_is_cancelled_does_not_come_even_if_it_was_due() {
    let mut timers = Timers::new().unwrap();
    let repeating = timers.every(micros(10), "tick");
    let once = timers.after(micros(10), "once");
    work_until(Monotonic.now() + micros(50));
    let first = timers.next_due().unwrap();
    assert_eq!(first.timer, repeating);
    assert_eq!(timers.cancel(once), Some("once"));
    assert_eq!(timers.cancel(first.timer), Some("tick"));
    assert_eq!(turn(&mut timers), [""; 0]);
    assert!(timers.is_empty());
    assert_eq!((timers.cancel(once), timers.cancel(repeating)), (None, None));
    assert_eq!(timers.reset(once, micros(1)), Err(NotPending));
    assert_eq!(timers.reset(repeating, micros(1)), Err(NotPending));
}

/// A place is used again, its name is not.
#[test]
fn a_name_kept_too_long_finds_nothing() {
    let mut timers = Timers::new().unwrap();
    let old = timers.every(micros(10), 1);
    timers.cancel(old);
    let new = timers.every(micros(10), 2);
    assert_eq!(timers.cancel(old), None);
    assert_eq!(timers.cancel(new), Some(2));
}

#[test]
fn ticks_that_are_moved_go_on_from_there() {
    let mut timers = Timers::new().unwrap();
    let tick = timers.every(Duration::from_secs(1), ());
    let from = Monotonic.now();
    timers.reset(tick, micros(300)).unwrap();
    let due = timers.wait().unwrap().unwrap();
    assert!(due.due >= from + micros(300) && due.timer == tick);
    let next = timers.next_deadline().unwrap();
    assert!(next >= due.due + Duration::from_secs(1), "never early, also rounded up to a tick");
}

#[test]
fn signals_do_not_end_a_wait() {
    let signals = softtimers_linux::signal_timer::SignalTimer::new().unwrap();
    let mut timers = Timers::new().unwrap();
    signals.arm_periodic(Monotonic.now(), micros(500)).unwrap();
    // Again where the machine stood still until the event was due without a sleep.
    let came_meanwhile = (0..1_000).any(|_| {
        timers.after(Duration::from_millis(5), ());
        let before = signals.signals();
        assert!(timers.wait().unwrap().is_some());
        signals.signals() > before
    });
    assert!(came_meanwhile, "no wait meets a signal");
}

#[test]
fn nothing_to_wait_for_ends_the_wait() {
    let mut timers = Timers::new().unwrap();
    assert_eq!(timers.wait().unwrap(), None);
    timers.at_within(Monotonic.now() + Duration::from_secs(3_600), Slack::DEFERRABLE, "whenever");
    assert_eq!(timers.wait().unwrap(), None, "it arms nothing");
    timers.at_within(Timestamp::ZERO, Slack::DEFERRABLE, "due");
    assert_eq!(timers.wait().unwrap().map(|due| due.event), Some("due"));
}

/// An event that schedules itself for now and a socket that never runs dry take turns.
#[test]
fn neither_the_socket_nor_the_events_starve() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..50 {
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    }
    let mut timers = Timers::new().unwrap();
    timers.at(Timestamp::ZERO, ());
    let mut order = String::new();
    for _ in 0..100 {
        match timers.wait_readable(&socket).unwrap() {
            Some(_) => {
                order.push('d');
                timers.at(Timestamp::ZERO, ());
            }
            None => {
                order.push('p');
                socket.recv_from(&mut [0; 8]).unwrap();
            }
        }
    }
    assert_eq!(order, "dp".repeat(50));
}

/// mio and others take only a change from the kernel: what is due again is one, also at the same time as before.
#[test]
fn an_edge_triggered_loop_misses_nothing() {
    let mut timers = Timers::new().unwrap();
    let mut poll = mio::Poll::new().unwrap();
    let descriptor = timers.as_raw_fd();
    let mut source = mio::unix::SourceFd(&descriptor);
    poll.registry().register(&mut source, mio::Token(0), mio::Interest::READABLE).unwrap();
    timers.at_within(Timestamp::ZERO, Slack::EXACT, 0);
    let (mut events, mut last) = (mio::Events::with_capacity(1), 0);
    while last < 100 {
        poll.poll(&mut events, None).unwrap();
        while let Some(due) = timers.next_due() {
            last = due.event;
            timers.at_within(Timestamp::ZERO, Slack::EXACT, last + 1);
        }
    }
}

/// Waits of its own and a descriptor that others wait for get on with each other.
#[test]
fn waiting_and_polling_may_be_mixed() {
    let mut timers = Timers::new().unwrap();
    timers.every(micros(300), ());
    for _ in 0..10 {
        assert!(timers.wait().unwrap().is_some());
        assert!(readable(&timers, None));
        while timers.next_due().is_none() {
            assert!(readable(&timers, None));
        }
        assert!(timers.next_due().is_none());
    }
}

#[test]
fn dropping_drops_each_event_once_and_closes_the_descriptor() {
    let event = Rc::new(());
    let mut timers = Timers::new().unwrap();
    timers.every(micros(10), Rc::clone(&event));
    timers.after(Duration::from_secs(1), Rc::clone(&event));
    let cancelled = timers.after(Duration::from_secs(2), Rc::clone(&event));
    drop(timers.cancel(cancelled));
    drop(timers.wait().unwrap());
    assert_eq!(Rc::strong_count(&event), 3);
    let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let data = rustix::event::epoll::EventData::new_u64(1);
    rustix::event::epoll::add(&epoll, &timers, data, rustix::event::epoll::EventFlags::IN).unwrap();
    drop(timers);
    assert_eq!(Rc::strong_count(&event), 1);
    let mut events = Vec::with_capacity(1);
    // The next tick's time would have come.
    work_until(Monotonic.now() + Duration::from_millis(1));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap();
    assert!(events.is_empty(), "the kernel has forgotten a descriptor that is closed");
}

/// It may be made in one thread and used in another.
#[test]
fn it_goes_to_another_thread() {
    let mut timers = Timers::new().unwrap();
    timers.after(micros(100), 7);
    let found = std::thread::spawn(move || timers.wait().unwrap().map(|due| due.event)).join().unwrap();
    assert_eq!(found, Some(7));
}

#[test]
fn events_allocate_nothing() {
    let mut timers = Timers::new().unwrap();
    assert!(!readable(&timers, Some(Duration::ZERO)));
    timers.every(micros(20), true);
    timers.after(micros(30), false);
    let mut run = |events| {
        for _ in 0..events {
            let due = timers.wait().unwrap().unwrap();
            if !due.event {
                let moved = timers.after(micros(50), false);
                timers.reset(moved, micros(30)).unwrap();
            }
        }
    };
    run(1_000);
    let allocated = allocation_counter::measure(|| run(5_000));
    assert_eq!(allocated.count_total, 0);
}
