//! `--metrics`: the counters as text for Prometheus, over HTTP.
//!
//! A thread of its own speaks HTTP, so that no peer of it can hold the relay up. It asks the relay for the counts, which
//! it takes between two rounds, and makes the text itself; nothing is counted twice, and nothing is done while nobody
//! asks. One connection is served at a time, and each has a second.
//!
//! ```text
//!   scraper ── GET /metrics ─▶ thread ── asks, a byte in a pipe ─▶ relay, between two rounds
//!           ◀── text ────────        ◀── counts ─────────────────
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use softtimers::{Clock, Monotonic};

use super::wake::{Waker, Woken, pair};

/// Where the metrics are asked for.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    asked: Receiver<Sender<Text>>,
    woken: Woken,
}

/// Makes the text of counts that were taken.
pub type Text = Box<dyn FnOnce() -> String + Send>;

impl Metrics {
    /// Listens, and answers from then on.
    ///
    /// # Errors
    /// What the system says of the address, or of another descriptor.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (waker, woken) = pair()?;
        let (ask, asked) = mpsc::channel();
        std::thread::spawn(move || {
            loop {
                match listener.accept() {
                    // What a peer does wrong is its own affair.
                    Ok((stream, _)) => drop(serve(stream, &ask, &waker)),
                    // Out of descriptors: one may be free later.
                    Err(_) => std::thread::park_timeout(PATIENCE),
                }
            }
        });
        Ok(Metrics { address, asked, woken })
    }

    /// The address in use.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers those who have asked; `text` is called for each, and what it returns by another thread.
    pub fn answer(&self, mut text: impl FnMut() -> Text) {
        self.woken.settle();
        while let Ok(reply) = self.asked.try_recv() {
            // Nobody may be waiting any more.
            let _ = reply.send(text());
        }
    }
}

/// Readable once somebody has asked.
impl AsFd for Metrics {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

fn serve(mut stream: TcpStream, ask: &Sender<Sender<Text>>, waker: &Waker) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let words: Vec<&str> = head.lines().next().unwrap_or_default().split(' ').collect();
    let text = |status: &str, body: &str| respond(status, body, "text/plain; charset=utf-8");
    let response = match words[..] {
        ["GET", path, version] if version.starts_with("HTTP/1.") => {
            if !matches!(path.split('?').next(), Some("/" | "/metrics")) {
                text("404 Not Found", "only /metrics is here\n")
            } else {
                let (reply, answer) = mpsc::channel();
                let _ = ask.send(reply);
                waker.wake();
                match answer.recv_timeout(PATIENCE) {
                    Ok(made) => respond("200 OK", &made(), "text/plain; version=0.0.4; charset=utf-8"),
                    Err(_) => text("503 Service Unavailable", "the relay does not come to answer\n"),
                }
            }
        }
        [_, _, version] if version.starts_with("HTTP/1.") => text("405 Method Not Allowed", "GET only\n"),
        _ => text("400 Bad Request", "this is HTTP/1.1\n"),
    };
    stream.write_all(response.as_bytes())
}

/// The request up to its empty line, as far as it is of a sane length and comes in time.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let until = Monotonic.now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 1_024];
    while head.len() < LONGEST_HEAD && !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Monotonic.now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn respond(status: &str, body: &str, kind: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// What a peer, or the relay, may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Of a request: more than any scraper sends.
const LONGEST_HEAD: usize = 8_192;
