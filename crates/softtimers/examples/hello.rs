//! The program of the README: serves a socket, and sends 25,000 packets a second beside it.
//!
//! `cargo run --release -p softtimers --example hello` talks to itself for a second.

use std::net::UdpSocket;
use std::time::Duration;

use softtimers::Timers;

#[derive(Clone)]
enum Event {
    Send,
    Stop,
}

fn main() -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let peer = socket.local_addr()?;
    let mut timers = Timers::new()?; // clock, timers and kernel timer in one
    timers.every(Duration::from_micros(40), Event::Send);
    timers.after(Duration::from_secs(1), Event::Stop);

    let (mut sent, mut received, mut buffer) = (0, 0, [0; 1500]);
    loop {
        match timers.wait_readable(&socket)? {
            None => received += socket.recv(&mut buffer)?, // your work
            Some(due) => match due.event {
                Event::Send => sent += socket.send_to(&[0; 1200], peer)?,
                Event::Stop => break,
            },
        }
    }
    let late = timers.lateness();
    println!("{sent} bytes sent, {received} received, {} ticks skipped", timers.skipped());
    println!("lateness p50 {:?} ns, p99 {:?} ns", late.quantile(0.5), late.quantile(0.99));
    Ok(())
}
