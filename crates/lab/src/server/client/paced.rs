//! Requests at a rate, whatever the server does: [`Paced`].
//!
//! Clients that ask when they are answered slow down with the server, and hide what it keeps waiting. Here requests have
//! times, one after the other at equal distances, and latency counts from there. The thread never sleeps: it has a CPU
//! to itself, and its own wake-ups would be part of what is measured.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Monotonic, Timestamp};

use super::{Answered, Client, KEPT, Outcome};

/// What is asked of one server, over connections that are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paced {
    /// Where.
    pub address: SocketAddr,
    /// Connections; a request takes one that waits for no answer.
    pub connections: usize,
    /// From one request to the next.
    pub interval: Duration,
    /// How long.
    pub time: Duration,
}

impl Paced {
    /// Asks, and waits for the end; not for answers that are still to come.
    ///
    /// # Errors
    /// If a connection cannot be made or breaks.
    pub fn run(&self) -> io::Result<Answered> {
        let mut epoll = Epoll::new(Waiting::Pwait2)?;
        let mut answered = Answered { answers: vec![0], ..Answered::default() };
        let mut clients = Vec::new();
        for number in 0..self.connections {
            clients.push(connected(&epoll, number, self.address)?);
        }
        let mut free: Vec<usize> = (0..clients.len()).collect();
        let mut waiting: VecDeque<Timestamp> = VecDeque::new();
        let (mut events, mut room) = (Events::with_capacity(256), vec![0; 16 << 10]);
        let begin = Monotonic.now();
        let mut next = begin;
        loop {
            let now = Monotonic.now();
            answered.time = now.saturating_duration_since(begin);
            if answered.time >= self.time {
                return Ok(answered);
            }
            while next <= now {
                waiting.push_back(next);
                next += self.interval;
            }
            while let (Some(&time), Some(&number)) = (waiting.front(), free.last()) {
                clients[number].ask(time)?;
                (_, _) = (waiting.pop_front(), free.pop());
            }
            epoll.wait(&mut events, Some(Duration::ZERO))?;
            for event in events.iter() {
                let number = event.token as usize;
                let Some(client) = clients.get_mut(number) else { continue };
                match client.receive(&mut room) {
                    Outcome::Goes => {}
                    Outcome::Done => {
                        client.done(&mut answered);
                        client.left = None;
                        free.push(number);
                    }
                    Outcome::Broke => return Err(io::Error::other("the server broke a connection")),
                }
            }
        }
    }
}

impl Client {
    /// Sends a request that was meant for `time`.
    fn ask(&mut self, time: Timestamp) -> io::Result<()> {
        self.began = time;
        self.stream.write_all(KEPT)
    }
}

fn connected(epoll: &Epoll, number: usize, address: SocketAddr) -> io::Result<Client> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    epoll.add(stream.as_fd(), number as u64, EventFlags::IN | EventFlags::ET)?;
    Ok(Client { stream, place: 0, address, asked: None, began: Monotonic.now(), left: None })
}
