//! The integrations on real descriptors: nobody starves, the backup goes off when it should and not
//! otherwise, and the fall-back for old kernels does the same.

use std::io::Write;
use std::net::UdpSocket;
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use softtimers::epoll::Waiting;
use softtimers::{
    Backup, Clock, Config, EventLoop, Happening, Idle, Interest, LoopConfig, Monotonic, Ready, Slack,
    SoftTimers, Token, TriggerState, Waiter,
};

fn timers<E>() -> SoftTimers<E> {
    SoftTimers::new(Config::default())
}

/// The lateness that a quarter of the events stay below: CPU time that others take is in the later ones.
fn quartile(timers: &SoftTimers<()>) -> u64 {
    timers.lateness().quantile(0.25).unwrap()
}

/// One event that is met by sleeping to it, with nothing learnt about wake-ups.
fn sleep_to_an_event(timers: &mut SoftTimers<()>, backup: &mut Backup, delay: Duration) {
    timers.schedule(Monotonic.now(), delay, Slack::EXACT, ());
    backup.arm(Monotonic.now(), timers.poll_at()).unwrap();
    backup.wait().unwrap();
    backup.expired().unwrap();
    let turn = timers.trigger(TriggerState::Backup, Monotonic.now());
    assert!(timers.next(&turn).is_some());
}

/// Does it again where the machine stood still at the wrong moment, and not for ever.
fn in_the_end(mut done: impl FnMut() -> bool) {
    let patience = Monotonic.now() + Duration::from_secs(30);
    while !done() {
        assert!(Monotonic.now() < patience, "still not done");
    }
}

/// A socket with `count` datagrams waiting in it.
fn flooded(count: usize) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..count {
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    }
    socket
}

/// An event that re-arms itself for "now" and a socket that never runs dry take turns.
#[test]
fn the_waiter_starves_neither_packets_nor_events() {
    let socket = flooded(50);
    let (mut timers, mut waiter) = (timers(), Waiter::new());
    timers.schedule(Monotonic.now(), Duration::ZERO, Slack::EXACT, ());
    let mut order = String::new();
    for _ in 0..100 {
        match waiter.recv_from(&socket, &mut [0; 8], &mut timers).unwrap() {
            Ready::Packet { .. } => order.push('p'),
            Ready::Due(_) => {
                order.push('d');
                timers.schedule(Monotonic.now(), Duration::ZERO, Slack::EXACT, ());
            }
        }
    }
    assert_eq!(order, "dp".repeat(50));
}

/// In the loop, events and several sources that stay ready take turns.
#[test]
fn the_loop_starves_neither_sources_nor_events() {
    for without_pwait2 in [false, true] {
        let mut events = EventLoop::new(LoopConfig { without_pwait2, ..LoopConfig::default() }).unwrap();
        let sockets = [flooded(1), flooded(1), flooded(1)];
        for (at, socket) in sockets.iter().enumerate() {
            events.register(socket, Token(at as u64), Interest::Readable).unwrap();
        }
        let mut timers = timers();
        timers.schedule(events.now(), Duration::ZERO, Slack::EXACT, ());
        let (mut ready, mut due) = ([0; 3], 0);
        for _ in 0..600 {
            match events.next(&mut timers).unwrap() {
                Happening::Ready { token, readable, .. } => {
                    assert!(readable);
                    ready[token.0 as usize] += 1;
                }
                Happening::Due(_) => {
                    due += 1;
                    timers.schedule(events.now(), Duration::ZERO, Slack::EXACT, ());
                }
            }
        }
        assert!(ready.iter().all(|&count| count >= 80) && due >= 270, "{ready:?} ready, {due} due");
        let expected = if without_pwait2 { Waiting::Ppoll } else { Waiting::Pwait2 };
        assert_eq!(events.waiting(), expected);
    }
}

/// Sub-millisecond deadlines are met from idle by both ways of waiting, never early, and in order.
#[test]
fn the_loop_sleeps_to_its_deadlines() {
    for without_pwait2 in [false, true] {
        let mut events = EventLoop::new(LoopConfig { without_pwait2, ..LoopConfig::default() }).unwrap();
        let mut timers = timers();
        let start = events.now();
        for micros in [900u64, 100, 500, 300, 700] {
            timers.schedule(start, Duration::from_micros(micros), Slack::EXACT, micros);
        }
        let mut order = Vec::new();
        while !timers.is_empty() {
            let Happening::Due(fired) = events.next(&mut timers).unwrap() else {
                panic!("nothing is registered")
            };
            assert!(events.now() >= start + Duration::from_micros(fired.event));
            order.push(fired.event);
        }
        assert_eq!(order, [100, 300, 500, 700, 900]);
        let stats = events.stats();
        assert!(stats.deadlines <= 5 && stats.waits <= 6, "{stats:?}");
    }
}

/// An event that falls due while a turn's handlers run is not slept over, however much slack it has.
#[test]
fn the_loop_does_not_sleep_over_a_due_event() {
    let mut events = EventLoop::new(LoopConfig::default()).unwrap();
    let mut timers = timers();
    let start = events.now();
    timers.schedule(start, Duration::ZERO, Slack::EXACT, "first");
    timers.schedule(
        start,
        Duration::from_millis(1),
        Slack::within(Duration::from_secs(3_600)),
        "due meanwhile",
    );
    timers.schedule(start, Duration::from_secs(5), Slack::EXACT, "too late");
    let mut order = Vec::new();
    while order.len() < 2 {
        let Happening::Due(fired) = events.next(&mut timers).unwrap() else {
            panic!("nothing is registered")
        };
        order.push(fired.event);
        while events.now() < start + Duration::from_millis(2) {}
    }
    assert_eq!(order, ["first", "due meanwhile"]);
    assert!(events.stats().longest_gap >= Duration::from_millis(1));
}

/// A hang-up is reported as readable, so that the reader meets it.
#[test]
fn the_loop_reports_a_hang_up() {
    let (near, far) = UnixStream::pair().unwrap();
    let mut events = EventLoop::new(LoopConfig::default()).unwrap();
    events.register(&far, Token(1), Interest::Writable).unwrap();
    drop(near);
    let happening = events.next(&mut timers::<()>()).unwrap();
    assert!(matches!(happening, Happening::Ready { token: Token(1), readable: true, .. }), "{happening:?}");
}

/// Parked loops learn what a wake-up takes and sleep less by that: by quartiles, earlier than a sleep
/// that has not learnt it.
#[test]
fn parked_doors_learn_the_lateness_of_wake_ups() {
    let mut events = EventLoop::new(LoopConfig::default()).unwrap();
    let mut backup = Backup::deadline().unwrap();
    let (socket, mut waiter) = (flooded(0), Waiter::new());
    let (mut by_loop, mut by_waiter, mut slept) = (timers(), timers(), timers());
    let delay = Duration::from_micros(200);
    for _ in 0..300 {
        by_loop.schedule(events.now(), delay, Slack::EXACT, ());
        assert!(matches!(events.next(&mut by_loop).unwrap(), Happening::Due(_)));

        by_waiter.schedule(events.now(), delay, Slack::EXACT, ());
        assert!(matches!(waiter.recv_from(&socket, &mut [0; 8], &mut by_waiter).unwrap(), Ready::Due(_)));

        sleep_to_an_event(&mut slept, &mut backup, delay);
    }
    let quartiles = [&by_loop, &by_waiter, &slept].map(quartile);
    assert!(
        quartiles[0] < quartiles[2] && quartiles[1] < quartiles[2],
        "loop, waiter, sleep: {quartiles:?} ns"
    );
    assert!(events.stats().deadlines > 0, "{:?}", events.stats());
}

/// The waiter says what ended its sleep: its deadline, or the socket.
#[test]
fn the_waiter_tells_a_deadline_from_a_packet() {
    let socket = flooded(0);
    let (mut timers, mut waiter) = (timers(), Waiter::new());
    // After the first sleep nothing has been learnt yet, so it is the time-out that found it due. Without a sleep it was
    // due before there could be one.
    in_the_end(|| {
        timers.schedule(Monotonic.now(), Duration::from_millis(1), Slack::EXACT, ());
        let due = waiter.recv_from(&socket, &mut [0; 8], &mut timers).unwrap();
        matches!(due, Ready::Due(fired) if fired.source == TriggerState::Backup)
    });
    assert_eq!(timers.stats().triggers[TriggerState::Readiness], 0);

    let address = socket.local_addr().unwrap();
    // A packet that comes before the waiter is asleep is found without a sleep.
    in_the_end(|| {
        let sender = std::thread::spawn(move || {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            Backup::tick(NonZeroU32::new(20).unwrap(), Monotonic.now()).unwrap().wait().unwrap();
            sender.send_to(b"x", address).unwrap();
        });
        let ready = waiter.recv_from(&socket, &mut [0; 8], &mut timers).unwrap();
        assert!(matches!(ready, Ready::Packet { .. }));
        sender.join().unwrap();
        timers.stats().triggers[TriggerState::Readiness] > 0
    });
    assert_eq!(timers.stats().triggers[TriggerState::Readiness], 1);
}

/// While sources keep the loop busy, the backup is hardly ever what runs an event.
#[test]
fn a_busy_loop_runs_its_events_at_trigger_states() {
    let mut events = EventLoop::new(LoopConfig::default()).unwrap();
    let socket = flooded(1); // never read: always ready
    events.register(&socket, Token(0), Interest::Readable).unwrap();
    let mut timers = timers();
    timers.schedule(events.now(), Duration::from_micros(40), Slack::micros(50), ());
    let mut fired = 0;
    while fired < 500 {
        if let Happening::Due(_) = events.next(&mut timers).unwrap() {
            fired += 1;
            timers.schedule(events.now(), Duration::from_micros(40), Slack::micros(50), ());
        }
    }
    assert_eq!(timers.stats().fired[TriggerState::Backup], 0);
}

/// Polling meets due times that a sleep misses by a wake-up: compared within one run, by quartiles.
#[test]
fn spinning_is_on_time_where_a_sleep_is_late() {
    let mut events = EventLoop::new(LoopConfig { idle: Idle::spin(), ..LoopConfig::default() }).unwrap();
    let mut backup = Backup::deadline().unwrap();
    let (mut spun, mut slept) = (timers(), timers());
    for _ in 0..200 {
        spun.schedule(events.now(), Duration::from_micros(150), Slack::EXACT, ());
        assert!(matches!(events.next(&mut spun).unwrap(), Happening::Due(_)));

        sleep_to_an_event(&mut slept, &mut backup, Duration::from_micros(150));
    }
    // And on average, without the quarter in which others took the CPU.
    let mean = |timers: &SoftTimers<()>| {
        let longest = timers.lateness().quantile(0.75).unwrap();
        let kept = timers.lateness().iter().filter(|&(nanos, _)| nanos <= longest);
        let (sum, count) = kept.fold((0, 0), |(sum, all), (nanos, count)| (sum + nanos * count, all + count));
        sum as f64 / count as f64
    };
    let means = [&spun, &slept].map(mean);
    assert!(means[0] < means[1], "spun {:.0} ns, slept {:.0} ns on average", means[0], means[1]);
    let [spun, slept] = [&spun, &slept].map(quartile);
    assert!(spun < slept, "spun {spun} ns, slept {slept} ns");
}

/// A program that visits a trigger state after each system call is counted call by call.
#[test]
fn every_system_call_can_be_a_trigger_state() {
    let socket = flooded(30);
    socket.set_nonblocking(true).unwrap();
    let mut timers = timers();
    timers.schedule(Monotonic.now(), Duration::ZERO, Slack::EXACT, ());
    let mut fired = 0;
    for _ in 0..100 {
        let _ = socket.recv(&mut [0; 8]); // a datagram, or "would block": a system call has ended
        let turn = timers.trigger(TriggerState::SyscallExit, Monotonic.now());
        while timers.next(&turn).is_some() {
            fired += 1;
        }
    }
    let stats = timers.stats();
    assert_eq!((stats.triggers[TriggerState::SyscallExit], stats.triggers.total(), fired), (100, 100, 1));
}

#[test]
fn a_long_handler_is_counted() {
    let config = LoopConfig { long_handler: Duration::from_millis(2), ..LoopConfig::default() };
    let mut events = EventLoop::new(config).unwrap();
    let mut timers = timers();
    for delay in [1, 2] {
        timers.schedule(events.now(), Duration::from_micros(delay), Slack::EXACT, ());
    }
    events.next(&mut timers).unwrap();
    let until = events.now() + Duration::from_millis(3);
    while events.now() < until {}
    events.next(&mut timers).unwrap();
    let stats = events.stats();
    assert!(stats.long_handlers >= 1 && stats.longest_handler > Duration::from_millis(2), "{stats:?}");
}

/// `Tick(hz)`: the rate it names is the rate the kernel keeps, to the tick: as many as there were places up to the moment
/// of the question.
#[test]
fn a_tick_goes_off_at_the_rate_it_names() {
    let hz = NonZeroU32::new(2_000).unwrap();
    let start = Monotonic.now();
    let mut backup = Backup::tick(hz, start).unwrap();
    let mut timers = timers();
    timers.schedule(start, Duration::from_millis(300), Slack::DEFERRABLE, ());
    while !timers.is_empty() {
        backup.arm(Monotonic.now(), timers.poll_at()).unwrap();
        backup.wait().unwrap();
        backup.expired().unwrap();
        let turn = timers.trigger(TriggerState::Backup, Monotonic.now());
        while timers.next(&turn).is_some() {}
    }
    let named = u128::from(backup.tick_hz().unwrap().get());
    let places = || {
        let passed = Monotonic.now().saturating_duration_since(start).as_nanos();
        (passed * named / 1_000_000_000) as u64
    };
    backup.wait().unwrap();
    let before = places();
    backup.expired().unwrap();
    let (counted, after) = (backup.stats().expirations, places());
    assert!((before..=after).contains(&counted), "{counted} expirations, {before} to {after} places");
    assert!(counted >= 600);
    assert_eq!(backup.stats().set + backup.stats().cleared, 0, "a tick is never re-armed");
}

/// The deadline is armed for the earliest event, left alone while it is early enough, and cleared.
#[test]
fn the_backup_is_armed_lazily() {
    let mut backup = Backup::deadline().unwrap();
    assert!(backup.wait().is_err(), "waiting for an unarmed timer has no end");
    let mut timers = timers();
    let now = Monotonic.now();
    let id = timers.schedule(now, Duration::from_secs(10), Slack::EXACT, 1);
    let first = timers.poll_at();
    for _ in 0..100 {
        backup.arm(now, timers.poll_at()).unwrap();
    }
    timers.reschedule(now, id, Duration::from_secs(20), Slack::EXACT).unwrap();
    backup.arm(now, timers.poll_at()).unwrap();
    assert_eq!(backup.armed(), first, "early enough");
    timers.schedule(now, Duration::from_millis(1), Slack::EXACT, 2);
    backup.arm(now, timers.poll_at()).unwrap();
    backup.wait().unwrap();
    assert_eq!((backup.expired().unwrap(), backup.expired().unwrap()), (1, 0));
    timers.cancel(id);
    let turn = timers.trigger(TriggerState::Backup, Monotonic.now());
    assert_eq!(timers.next(&turn).map(|fired| fired.event), Some(2));
    backup.arm(Monotonic.now(), timers.poll_at()).unwrap();
    let stats = backup.stats();
    assert_eq!((stats.set, stats.expirations), (2, 1), "{stats:?}");
    assert_eq!(backup.armed(), None);
}

/// Streams, listeners and pipes wait in the same way as datagrams.
#[test]
fn the_waiter_waits_for_any_descriptor() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let (mut timers, mut waiter) = (timers(), Waiter::with_idle(Idle::hybrid()));
    timers.schedule(Monotonic.now(), Duration::from_micros(200), Slack::EXACT, "tick");
    assert_eq!(waiter.readable(&far, &mut timers).unwrap().map(|fired| fired.event), Some("tick"));
    near.write_all(b"x").unwrap();
    assert!(waiter.readable(&far, &mut timers).unwrap().is_none());
}
