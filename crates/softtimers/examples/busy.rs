//! A program that computes all the time and sends 25,000 packets a second beside it: a clock check after each piece of work.
//!
//! `cargo run --release -p softtimers --example busy` takes a second.

use std::hint::black_box;
use std::net::UdpSocket;
use std::time::Duration;

use softtimers::prelude::*;

#[derive(Clone)]
enum Event {
    Send,
    Stop,
}

fn main() -> std::io::Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?; // unread datagrams are dropped
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;

    let mut timers = Timers::new()?;
    timers.every(Rate::pps(25_000), Event::Send);
    timers.after(Duration::from_secs(1), Event::Stop);

    let (mut pieces, mut packets) = (0_u64, 0_u64);
    'work: loop {
        // Some microseconds. An event may be late by the longest piece of work.
        black_box((0..500_u64).fold(pieces, |hash, n| hash.rotate_left(5) ^ n));
        pieces += 1;
        while let Some(due) = timers.next_due() {
            match due.event {
                Event::Send => {
                    sender.send(&[0; 1200])?;
                    packets += 1;
                }
                Event::Stop => break 'work,
            }
        }
    }
    let late = timers.lateness();
    println!("{packets} packets beside {pieces} pieces of work, {} ticks skipped", timers.skipped());
    println!("lateness p50 {:?} ns, p99 {:?} ns", late.quantile(0.5), late.quantile(0.99));
    Ok(())
}
