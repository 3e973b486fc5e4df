//! The loop you have, here mio's: register the timers' descriptor, check the clock after each event. mio rounds its own
//! time-outs up to a millisecond, so they cannot be the timers' deadline.

use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use softtimers::Timers;

const SOCKET: Token = Token(0);
const TIMERS: Token = Token(1);

fn main() -> std::io::Result<()> {
    let mut socket = UdpSocket::bind("127.0.0.1:0".parse().map_err(std::io::Error::other)?)?;
    socket.connect(socket.local_addr()?)?; // it talks to itself
    let mut timers = Timers::new()?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
    poll.registry().register(&mut SourceFd(&timers.as_raw_fd()), TIMERS, Interest::READABLE)?;

    timers.every(Duration::from_micros(200), ());
    let mut events = Events::with_capacity(64);
    let (mut packets, mut ticks) = (0, 0);
    while ticks < 1_000 {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == SOCKET {
                while socket.recv(&mut [0; 64]).is_ok() {
                    packets += 1;
                }
            }
            while timers.next_due().is_some() {
                socket.send(&[0; 64])?;
                ticks += 1;
            }
        }
    }
    let late = timers.lateness();
    println!("{ticks} ticks, {packets} packets, lateness p50 {:?} ns", late.quantile(0.5));
    Ok(())
}
