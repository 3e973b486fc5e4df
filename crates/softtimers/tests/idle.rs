//! An idle program is silent: nothing armed, no wake-up and no CPU time, by the kernel's own counters.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use softtimers::{
    Backup, Clock, Config, EventLoop, Happening, Idle, Interest, LoopConfig, Monotonic, Ready, Slack,
    SoftTimers, Token, TriggerState, Waiter,
};

/// The kernel's counts for one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    slept: u64,
    cpu_ns: u64,
}

fn counted(thread: u32) -> Counted {
    let read = |file| std::fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).unwrap();
    let status = read("status");
    let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    let cpu = read("schedstat");
    Counted {
        slept: slept.trim().parse().unwrap(),
        cpu_ns: cpu.split_whitespace().next().unwrap().parse().unwrap(),
    }
}

fn is_asleep(thread: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

/// Starts `idle` on its own thread; it names its thread and then waits for a packet on the socket.
fn start(
    idle: impl FnOnce(UdpSocket, mpsc::Sender<u32>) + Send + 'static,
) -> (u32, UdpSocket, thread::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let waker = UdpSocket::bind("127.0.0.1:0").unwrap();
    waker.connect(socket.local_addr().unwrap()).unwrap();
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || idle(socket, tell));
    (told.recv().unwrap(), waker, thread)
}

fn this_thread() -> u32 {
    u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap()
}

/// A loop, a waiter and a program that polls its backup, each after some events that fired, were
/// cancelled or moved: in 5 s not one wake-up and not one nanosecond of CPU time.
#[test]
fn five_idle_seconds_cost_no_wake_up() {
    let quiet = [start(event_loop), start(spinning_loop), start(waiter), start(backup)];
    let count = || quiet.each_ref().map(|(thread, ..)| counted(*thread));
    let (_never, timeout) = mpsc::channel::<()>();
    let pass = |time| assert!(timeout.recv_timeout(time).is_err());
    // On a machine that is slow just now, one that sleeps need not have come to where it stays.
    let mut before = count();
    for _ in 0..100 {
        pass(Duration::from_millis(100));
        let now = count();
        let rest = quiet.iter().all(|(thread, ..)| is_asleep(*thread)) && now == before;
        before = now;
        if rest {
            break;
        }
    }
    pass(Duration::from_secs(5));
    let after = count();
    assert_eq!(before, after, "something woke up");
    for (_, waker, thread) in quiet {
        waker.send(b"enough").unwrap();
        thread.join().unwrap();
    }
}

/// Some events that fire, one that is cancelled, one that is moved and then cancelled.
fn used_timers() -> SoftTimers<u32> {
    let mut timers = SoftTimers::new(Config::default());
    let now = Monotonic.now();
    for event in 0..3 {
        timers.schedule(now, Duration::from_micros(100), Slack::DEFAULT, event);
    }
    let cancelled = timers.schedule(now, Duration::from_millis(2), Slack::EXACT, 3);
    timers.cancel(cancelled);
    timers
}

fn event_loop(socket: UdpSocket, tell: mpsc::Sender<u32>) {
    run_loop(Idle::park(), &socket, &tell);
}

/// Even a loop that spins halts when nothing is pending.
fn spinning_loop(socket: UdpSocket, tell: mpsc::Sender<u32>) {
    run_loop(Idle::spin(), &socket, &tell);
}

fn run_loop(idle: Idle, socket: &UdpSocket, tell: &mpsc::Sender<u32>) {
    let mut timers = used_timers();
    let mut events = EventLoop::new(LoopConfig { idle, ..LoopConfig::default() }).unwrap();
    events.register(socket, Token(0), Interest::Readable).unwrap();
    while !timers.is_empty() {
        assert!(matches!(events.next(&mut timers).unwrap(), Happening::Due(_)));
    }
    tell.send(this_thread()).unwrap();
    assert!(matches!(events.next(&mut timers).unwrap(), Happening::Ready { .. }));
}

fn waiter(socket: UdpSocket, tell: mpsc::Sender<u32>) {
    let mut timers = used_timers();
    let mut waiter = Waiter::new();
    while !timers.is_empty() {
        assert!(matches!(waiter.recv_from(&socket, &mut [0; 8], &mut timers).unwrap(), Ready::Due(_)));
    }
    tell.send(this_thread()).unwrap();
    assert!(matches!(waiter.recv_from(&socket, &mut [0; 8], &mut timers).unwrap(), Ready::Packet { .. }));
}

fn backup(socket: UdpSocket, tell: mpsc::Sender<u32>) {
    let mut timers = used_timers();
    let mut backup = Backup::deadline().unwrap();
    while !timers.is_empty() {
        backup.arm(Monotonic.now(), timers.poll_at()).unwrap();
        backup.wait().unwrap();
        backup.expired().unwrap();
        let turn = timers.trigger(TriggerState::Backup, Monotonic.now());
        while timers.next(&turn).is_some() {}
    }
    // Armed for an event that is then cancelled.
    let id = timers.schedule(Monotonic.now(), Duration::from_millis(50), Slack::EXACT, 9);
    backup.arm(Monotonic.now(), timers.poll_at()).unwrap();
    timers.cancel(id);
    backup.arm(Monotonic.now(), timers.poll_at()).unwrap();

    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", backup.as_raw_fd())).unwrap();
    assert!(info.contains("it_value: (0, 0)") && info.contains("it_interval: (0, 0)"), "still armed: {info}");
    tell.send(this_thread()).unwrap();
    socket.recv(&mut [0; 8]).unwrap();
}
