//! A plain `std` UDP echo server that also sends a paced stream: one call replaces `recv_from`.
//!
//! `cargo run --release -p softtimers --example std_server -- 127.0.0.1:7007 127.0.0.1:7008` answers on the first
//! address and sends a packet each 120 µs to the second, for three seconds.

use std::net::UdpSocket;
use std::time::Duration;

use softtimers::{Clock, Config, Monotonic, PaceConfig, Rate, RateClock, Ready, Slack, SoftTimers, Waiter};

enum Event {
    Departure,
    End,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut addresses = std::env::args().skip(1);
    let local = addresses.next().unwrap_or("127.0.0.1:7007".into());
    let peer = addresses.next().unwrap_or("127.0.0.1:7008".into());

    let socket = UdpSocket::bind(local)?;
    let stream = UdpSocket::bind("0.0.0.0:0")?;
    let mut pace = RateClock::new(PaceConfig::new(Rate::every(Duration::from_micros(120))?))?;
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), Duration::from_secs(3), Slack::DEFAULT, Event::End);
    let now = Monotonic.now();
    timers.schedule_at(now, pace.start(now), Slack::EXACT, Event::Departure);

    let mut waiter = Waiter::new();
    let mut buffer = [0; 2048];
    loop {
        match waiter.recv_from(&socket, &mut buffer, &mut timers)? {
            Ready::Packet { len, from } => {
                socket.send_to(&buffer[..len], from)?;
            }
            Ready::Due(fired) => match fired.event {
                Event::Departure => {
                    // If no program listens there, an ICMP error comes back: ignore it.
                    let _ = stream.send_to(&[0; 1200], &peer);
                    let now = Monotonic.now();
                    timers.schedule_at(now, pace.departed(now), Slack::EXACT, Event::Departure);
                }
                Event::End => break,
            },
        }
    }
    let late = timers.lateness();
    println!(
        "{} packets, lateness p50 {:?} ns, p99 {:?} ns",
        pace.departures(),
        late.quantile(0.5),
        late.quantile(0.99)
    );
    Ok(())
}
