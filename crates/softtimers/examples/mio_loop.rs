//! The loop you have, here mio's: register the backup's descriptor, visit a trigger state after each
//! event, arm the backup before each poll. mio rounds its own time-outs up to a millisecond, so they
//! cannot be the backup.

use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use softtimers::{Backup, Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};

const SOCKET: Token = Token(0);
const BACKUP: Token = Token(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    socket.connect(socket.local_addr()?)?; // it talks to itself
    let mut backup = Backup::deadline()?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
    poll.registry().register(&mut SourceFd(&backup.as_raw_fd()), BACKUP, Interest::READABLE)?;

    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), Duration::from_micros(200), Slack::micros(20), 0);
    let mut events = Events::with_capacity(64);
    let (mut packets, mut fired_total) = (0, 0);
    while fired_total < 1_000 {
        backup.arm(Monotonic.now(), timers.poll_at())?;
        poll.poll(&mut events, None)?;
        for event in &events {
            let source = match event.token() {
                SOCKET => {
                    while socket.recv(&mut [0; 64]).is_ok() {
                        packets += 1;
                    }
                    TriggerState::HandlerExit
                }
                _ => {
                    backup.expired()?;
                    TriggerState::Backup
                }
            };
            let turn = timers.trigger(source, Monotonic.now());
            while let Some(fired) = timers.next(&turn) {
                socket.send(&[0; 64])?;
                fired_total += 1;
                timers.schedule(
                    Monotonic.now(),
                    Duration::from_micros(200),
                    Slack::micros(20),
                    fired.event + 1,
                );
            }
        }
    }
    println!("{fired_total} events, {packets} packets, {:?}", backup.stats());
    Ok(())
}
