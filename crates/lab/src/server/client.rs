//! Clients on one thread, as many as asked for, each with one request under way: [`Load`].
//!
//! For machines without `wrk`, and where one needs to know which port answered whom. A client that is answered asks again
//! at once, so the load rises with the number of clients until the server has no time left. [`paced`] asks at a rate
//! instead, for what a server does below that.

pub mod paced;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Clock, Histogram, Monotonic, Timestamp};

/// What is asked of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// Where, and how many clients there.
    pub clients: Vec<(SocketAddr, usize)>,
    /// All requests of a client over one connection, or a connection for each.
    pub keep_alive: bool,
    /// How long.
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Whole answers of status 200, by the addresses of [`Load::clients`].
    pub answers: Vec<u64>,
    /// Answers of other kinds, and connections that broke.
    pub errors: u64,
    /// From the beginning of a request, or of its connection, to the end of its answer; nanoseconds.
    pub latency: Histogram,
    /// How long it really was.
    pub time: Duration,
}

impl Answered {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answers.iter().sum::<u64>() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Load {
    /// Makes it, and waits for its end; not for answers that are still to come.
    ///
    /// # Errors
    /// If no connection can be made.
    pub fn run(&self) -> io::Result<Answered> {
        let mut epoll = Epoll::new(Waiting::Pwait2)?;
        let mut answered = Answered { answers: vec![0; self.clients.len()], ..Answered::default() };
        let places = self.clients.iter().enumerate();
        let places =
            places.flat_map(|(place, &(address, number))| (0..number).map(move |_| (place, address)));
        let begin = Monotonic.now();
        let mut clients = Vec::new();
        for (number, (place, address)) in places.enumerate() {
            clients.push(Client::connect(&epoll, number, place, address)?);
        }
        let end = begin + self.time;
        let (mut events, mut room) = (Events::with_capacity(256), vec![0; 16 << 10]);
        loop {
            let now = Monotonic.now();
            answered.time = now.saturating_duration_since(begin);
            if now >= end {
                return Ok(answered);
            }
            epoll.wait(&mut events, Some(end.saturating_duration_since(now)))?;
            for event in events.iter() {
                let Some(client) = clients.get_mut(event.token as usize) else { continue };
                let outcome = client.step(self.keep_alive, &mut room, &mut answered);
                if outcome == Outcome::Goes {
                    continue;
                }
                answered.errors += u64::from(outcome == Outcome::Broke);
                *client = Client::connect(&epoll, event.token as usize, client.place, client.address)?;
            }
        }
    }
}

/// What becomes of a client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Goes,
    Done,
    Broke,
}

/// One with a request under way.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    place: usize,
    address: SocketAddr,
    asked: Option<Timestamp>,
    began: Timestamp,
    /// Bytes of the answer that are still to come, once its head has been read.
    left: Option<usize>,
}

impl Client {
    fn connect(epoll: &Epoll, number: usize, place: usize, address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll.add(socket.as_fd(), number as u64, interest)?;
        let (stream, began) = (TcpStream::from(socket), Monotonic.now());
        Ok(Client { stream, place, address, asked: None, began, left: None })
    }

    /// Asks if it has not, and reads what there is.
    fn step(&mut self, keep_alive: bool, room: &mut [u8], answered: &mut Answered) -> Outcome {
        let request = if keep_alive { KEPT } else { CLOSED };
        if self.asked.is_none() {
            match self.stream.write(request) {
                Ok(written) if written == request.len() => self.asked = Some(self.began),
                Err(error) if is_to_wait(&error) => return Outcome::Goes,
                _ => return Outcome::Broke,
            }
        }
        loop {
            match self.receive(room) {
                Outcome::Done => {}
                other => return other,
            }
            let now = self.done(answered);
            if !keep_alive {
                return Outcome::Done;
            }
            (self.began, self.left) = (now, None);
            if !self.stream.write(request).is_ok_and(|written| written == request.len()) {
                return Outcome::Broke;
            }
        }
    }

    /// Reads until the answer is whole, or there is no more of it yet.
    fn receive(&mut self, room: &mut [u8]) -> Outcome {
        loop {
            match self.stream.read(room) {
                Ok(0) => return Outcome::Broke,
                Ok(read) => match self.took(&room[..read]) {
                    None => return Outcome::Broke,
                    Some(false) => {}
                    Some(true) => return Outcome::Done,
                },
                Err(error) if is_to_wait(&error) => return Outcome::Goes,
                Err(_) => return Outcome::Broke,
            }
        }
    }

    /// Accounts for a whole answer. Returns when that was.
    fn done(&self, answered: &mut Answered) -> Timestamp {
        let now = Monotonic.now();
        answered.answers[self.place] += 1;
        answered.latency.record(now.saturating_duration_since(self.began).as_nanos() as u64);
        now
    }

    /// Whether the answer is whole with these bytes; `None` if it is none, or not the one that was asked for.
    fn took(&mut self, bytes: &[u8]) -> Option<bool> {
        let left = match self.left {
            Some(left) => left.checked_sub(bytes.len())?,
            None => {
                let mut headers = [httparse::EMPTY_HEADER; 16];
                let mut response = httparse::Response::new(&mut headers);
                // The head comes in one piece, for it is written as one.
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

fn is_to_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::NotConnected
    )
}

const KEPT: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";
const CLOSED: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
