//! Your own epoll loop: its time-out is the backup, so no other descriptor is needed.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, TimerSlack, TriggerState};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?; // it talks to itself
    socket.set_nonblocking(true)?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(socket.as_fd(), 0, EventFlags::IN)?;

    // By default the kernel may end this thread's sleeps 50 µs late.
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), Duration::from_micros(200), Slack::EXACT, "send");
    let mut events = Events::with_capacity(64);
    let (mut sent, mut received) = (0, 0);
    while received < 1_000 {
        let now = Monotonic.now();
        let timeout = timers.poll_at().map(|deadline| deadline.saturating_duration_since(now));
        epoll.wait(&mut events, timeout)?;
        if !events.is_empty() && socket.recv(&mut [0; 64]).is_ok() {
            received += 1; // the handler …
        }
        // … and the trigger state after it: one compare when nothing is due.
        let turn = timers.trigger(TriggerState::HandlerExit, Monotonic.now());
        while let Some(fired) = timers.next(&turn) {
            socket.send(&[0; 64])?;
            sent += 1;
            timers.schedule(Monotonic.now(), Duration::from_micros(200), Slack::EXACT, fired.event);
        }
    }
    let late = timers.lateness();
    println!("{sent} sent, {received} received, lateness p50 {:?} ns", late.quantile(0.5));
    Ok(())
}
