//! Clients on one thread, each with one request under way: [`Load`].
//!
//! A client that is answered asks again at once, so the load rises with the number of clients until the server is
//! saturated. But such clients slow down with the server, which hides its delays; so below saturation, requests are
//! scheduled at equal distances, and latency counts from their scheduled time. The thread never sleeps then: it has a
//! CPU to itself, and its own wake-ups would be part of the measurement.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Histogram, Monotonic, Timestamp};

/// The load of clients on servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// The servers, and the number of clients of each.
    pub clients: Vec<(SocketAddr, usize)>,
    /// Whether a client keeps one connection, or makes one for each request.
    pub keep_alive: bool,
    /// The time between requests, over persistent connections; `None` for clients that ask when they are answered.
    pub interval: Option<Duration>,
    /// The duration.
    pub time: Duration,
}

/// The answers that clients got.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Complete answers of status 200, by the addresses of [`Load::clients`].
    pub answers: Vec<u64>,
    /// Answers of other kinds, and connections that broke.
    pub errors: u64,
    /// From the time of a request, or the beginning of its connection, to the end of its answer; nanoseconds.
    pub latency: Histogram,
    /// The actual duration.
    pub time: Duration,
}

impl Answered {
    /// Returns the rate in answers a second.
    pub fn rate(&self) -> f64 {
        self.answers.iter().sum::<u64>() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Load {
    /// Runs it to its end, without waiting for answers that are still to come.
    ///
    /// # Errors
    /// If no connection can be made.
    pub fn run(&self) -> io::Result<Answered> {
        self.run_polling(&[])
    }

    /// Runs it, with any of these without ever sleeping: each turn receives from connections that poll interfaces, such as
    /// [`polled`](super::cable::polled).
    ///
    /// # Errors
    /// If no connection can be made.
    pub fn run_polling(&self, polled: &[TcpStream]) -> io::Result<Answered> {
        let mut epoll = Epoll::new(Waiting::Pwait2)?;
        let mut answered = Answered { answers: vec![0; self.clients.len()], ..Answered::default() };
        let begin = Monotonic.now();
        let end = begin + self.time;
        let mut clients = Vec::new();
        for (place, &(address, number)) in self.clients.iter().enumerate() {
            for _ in 0..number {
                clients.push(Client::connect(&epoll, clients.len(), place, address)?);
            }
        }
        // Scheduled requests, and the clients without one.
        let (mut next, mut due, mut free) = (begin, VecDeque::new(), Vec::new());
        let (mut events, mut room) = (Events::with_capacity(256), vec![0; 16 << 10]);
        loop {
            let now = Monotonic.now();
            answered.time = now.saturating_duration_since(begin);
            if now >= end {
                return Ok(answered);
            }
            if let Some(interval) = self.interval {
                while next <= now {
                    due.push_back(next);
                    next += interval;
                }
                while let (Some(&time), Some(&number)) = (due.front(), free.last()) {
                    let client: &mut Client = &mut clients[number];
                    client.ask(time, true);
                    (_, _) = (due.pop_front(), free.pop());
                }
            }
            for mut polled in polled {
                // It never has data: the poll brings packets for the others.
                let _ = polled.read(&mut [0]);
            }
            let never_sleeps = self.interval.is_some() || !polled.is_empty();
            let patience = if never_sleeps { Duration::ZERO } else { end.saturating_duration_since(now) };
            epoll.wait(&mut events, Some(patience))?;
            for event in events.iter() {
                let number = event.token as usize;
                let Some(client) = clients.get_mut(number) else { continue };
                match client.step(self, &mut room, &mut answered) {
                    Outcome::Goes => {}
                    Outcome::Free => free.push(number),
                    outcome => {
                        answered.errors += u64::from(outcome == Outcome::Broke);
                        free.retain(|&other| other != number);
                        *client = Client::connect(&epoll, number, client.place, client.address)?;
                    }
                }
            }
        }
    }
}

/// The outcome of a client's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Goes,
    /// It may ask again.
    Free,
    /// Its connection is over.
    Done,
    Broke,
}

/// A client with a connection.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    place: usize,
    address: SocketAddr,
    connected: bool,
    /// The time at which its request was due.
    began: Timestamp,
    /// Bytes of the answer still to come, once its head has been read.
    left: Option<usize>,
}

impl Client {
    fn connect(epoll: &Epoll, number: usize, place: usize, address: SocketAddr) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll.add(socket.as_fd(), number as u64, interest)?;
        let (stream, began) = (TcpStream::from(socket), Monotonic.now());
        Ok(Client { stream, place, address, connected: false, began, left: None })
    }

    /// Sends a request that was due at `time`; a failure shows when the answer is read.
    fn ask(&mut self, time: Timestamp, keep_alive: bool) {
        (self.began, self.left) = (time, None);
        let _ = self.stream.write_all(if keep_alive { KEPT } else { CLOSED });
    }

    /// Asks if it has not, and reads what there is.
    fn step(&mut self, load: &Load, room: &mut [u8], answered: &mut Answered) -> Outcome {
        if !std::mem::replace(&mut self.connected, true) {
            if load.interval.is_some() {
                return Outcome::Free;
            }
            self.ask(self.began, load.keep_alive);
        }
        loop {
            match self.receive(room) {
                Outcome::Done => {}
                other => return other,
            }
            let now = Monotonic.now();
            answered.answers[self.place] += 1;
            answered.latency.record(now.saturating_duration_since(self.began).as_nanos() as u64);
            if !load.keep_alive {
                return Outcome::Done;
            }
            if load.interval.is_some() {
                return Outcome::Free;
            }
            self.ask(now, true);
        }
    }

    /// Reads until the answer is complete, or no more of it is there yet.
    fn receive(&mut self, room: &mut [u8]) -> Outcome {
        loop {
            match self.stream.read(room) {
                Ok(read) if read > 0 => match self.took(&room[..read]) {
                    None => return Outcome::Broke,
                    Some(false) => {}
                    Some(true) => return Outcome::Done,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Outcome::Goes,
                _ => return Outcome::Broke,
            }
        }
    }

    /// Says whether the answer is complete with these bytes; `None` if it is invalid or not the expected one.
    fn took(&mut self, bytes: &[u8]) -> Option<bool> {
        let left = match self.left {
            Some(left) => left.checked_sub(bytes.len())?,
            None => {
                let mut headers = [httparse::EMPTY_HEADER; 16];
                let mut response = httparse::Response::new(&mut headers);
                // The head comes in one piece, since it is written as one.
                let httparse::Status::Complete(head) = response.parse(bytes).ok()? else { return None };
                let length =
                    response.headers.iter().find(|of| of.name.eq_ignore_ascii_case("content-length"))?;
                let length: usize = std::str::from_utf8(length.value).ok()?.parse().ok()?;
                let read = bytes.len() - head;
                (response.code == Some(200)).then_some(())?;
                length.checked_sub(read)?
            }
        };
        self.left = Some(left);
        Some(left == 0)
    }
}

const KEPT: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";
const CLOSED: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
