//! A UDP server with a loop on each core: each with its own socket at the same address, its own timers, and
//! no lock.
//!
//! ```text
//!                             ┌─▶ socket ─▶ EventLoop, SoftTimers      thread 1
//!   clients ─▶ kernel's hash ─┼─▶ socket ─▶ EventLoop, SoftTimers      thread 2
//!                             └─▶ …
//! ```
//!
//! The kernel gives all datagrams of a client to the same socket, so each client belongs to one loop, and no
//! order between loops is needed. Here each request is answered a millisecond later, by a timer of the loop
//! that took it; a client must see its answers in the order of its requests.
//!
//! `cargo run --release -p softtimers-net --example one_loop_per_core -- 4` serves itself on four loops; without a number there is
//! one for each core.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, io, thread};

use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, Slack, SoftTimers, Token};
use softtimers_net::udp::UdpSocket;

const CLIENTS: usize = 16;
const REQUESTS: u32 = 200;
const WAIT: Duration = Duration::from_millis(1);
/// How often a loop checks whether to end.
const LOOK: Duration = Duration::from_millis(20);
const SOCKET: Token = Token(0);

/// The events of a loop.
#[derive(Clone, Copy)]
enum Later {
    Answer(SocketAddr, [u8; 4]),
    Look,
}

fn main() -> io::Result<()> {
    let cores = || thread::available_parallelism().map_or(1, Into::into);
    let loops = env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(cores);
    for (number, answered) in run(loops)?.into_iter().enumerate() {
        println!("loop {number}: {answered} requests");
    }
    Ok(())
}

/// Serves some clients, and returns how many requests each loop has answered.
fn run(loops: usize) -> io::Result<Vec<u32>> {
    let sockets = UdpSocket::bind_group(SocketAddr::from(([127, 0, 0, 1], 0)), loops.max(1))?;
    let (address, over) = (sockets[0].local_addr()?, &AtomicBool::new(false));
    thread::scope(|scope| {
        let servers: Vec<_> =
            sockets.into_iter().map(|socket| scope.spawn(move || serve(&socket, over))).collect();
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(move || ask(address))).collect();
        let asked: io::Result<()> =
            clients.into_iter().try_for_each(|client| client.join().expect("no panic"));
        over.store(true, Ordering::Relaxed);
        let answered = servers.into_iter().map(|server| server.join().expect("no panic")).collect();
        asked.and(answered)
    })
}

/// Runs one loop, with its socket and timers.
fn serve(socket: &UdpSocket, over: &AtomicBool) -> io::Result<u32> {
    socket.set_nonblocking(true)?;
    let mut events = EventLoop::new(LoopConfig::default())?;
    let mut timers = SoftTimers::new(Config::default());
    events.register(socket.as_ref(), SOCKET, Interest::Readable)?;
    timers.schedule(events.now(), LOOK, Slack::EXACT, Later::Look);
    let mut answered = 0;
    loop {
        match events.next(&mut timers)? {
            Happening::Ready { .. } => {
                let mut request = [0; 4];
                while let Ok((4, from)) = socket.recv_from(&mut request) {
                    timers.schedule(events.now(), WAIT, Slack::EXACT, Later::Answer(from, request));
                }
            }
            Happening::Due(due) => match due.event {
                Later::Answer(to, request) => {
                    socket.send_to(&request, to)?;
                    answered += 1;
                }
                Later::Look if over.load(Ordering::Relaxed) => return Ok(answered),
                Later::Look => _ = timers.schedule(events.now(), LOOK, Slack::EXACT, Later::Look),
            },
        }
    }
}

/// One client, which has ten requests under way at a time.
fn ask(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut asked = 0u32;
    for expected in 0..REQUESTS {
        while asked < REQUESTS.min(expected + 10) {
            socket.send_to(&asked.to_be_bytes(), server)?;
            asked += 1;
        }
        let mut answer = [0; 4];
        socket.recv(&mut answer)?;
        if u32::from_be_bytes(answer) != expected {
            return Err(io::Error::other(format!("{answer:?} instead of {expected}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_in_order_by_any_number_of_loops() {
        for loops in [1, 2, 4] {
            let answered = run(loops).unwrap();
            assert_eq!(answered.len(), loops);
            assert_eq!(answered.iter().sum::<u32>(), CLIENTS as u32 * REQUESTS);
        }
    }
}
