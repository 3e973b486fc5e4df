//! A TCP server that polls its interface's receive queue while it is saturated, and is woken by interrupts while it is not.
//!
//! ```text
//!   clients ─▶ queue of the interface ─▶ connections ─▶ EventLoop ─▶ answers
//!                  ▲                                        │
//!                  └──────── Steered: polls between handlers┘
//! ```
//!
//! `cargo run --release -p softtimers-net --example polled_server -- 192.0.2.1:9000` answers each byte with the same byte, and
//! says each second whether it polls, or why not. Without an address it serves itself on loopback, which has no queue.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use std::{env, thread};

use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, Slack, SoftTimers, Token};
use softtimers_net::napi::{BACKUP, Driven, Queue, Steered};
use softtimers_poll::{Aggregation, AggregationConfig};

const LISTENER: Token = Token(0);
const REQUESTS: u32 = 2_000;
/// How often it says what drives it.
const REPORT: Duration = Duration::from_secs(1);

fn main() -> io::Result<()> {
    let Some(address) = env::args().nth(1) else {
        let (answered, driven) = serve_itself()?;
        println!("{answered} answers; {driven}");
        return Ok(());
    };
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    serve(&TcpListener::bind(address)?, u64::MAX).map(drop)
}

/// Serves a client on loopback. Returns the number of answers, and what drove the server.
fn serve_itself() -> io::Result<(u64, String)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let client = thread::spawn(move || -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        for _ in 0..REQUESTS {
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
        }
        Ok(())
    });
    let served = serve(&listener, REQUESTS.into())?;
    client.join().expect("no panic").map(|()| served)
}

/// Serves until so many bytes are answered.
fn serve(listener: &TcpListener, most: u64) -> io::Result<(u64, String)> {
    listener.set_nonblocking(true)?;
    let mut events = EventLoop::new(LoopConfig::default())?;
    let mut timers = SoftTimers::new(Config::default());
    events.register(listener, LISTENER, Interest::Readable)?;
    timers.schedule(events.now(), REPORT, Slack::EXACT, ());
    let mut queue = Steered::new(Aggregation::new(AggregationConfig::default()), BACKUP);
    let mut streams: HashMap<u64, TcpStream> = HashMap::new();
    let (mut answered, mut next, mut last) = (0, 1, 0);
    while answered < most {
        // The connection that was handled last: it has received something, and has nothing to be received now.
        if let Some(stream) = streams.get(&last) {
            queue.before_next(&mut events, &timers, stream)?;
        }
        match events.next(&mut timers)? {
            Happening::Ready { token: LISTENER, .. } => {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    Queue::prepare(&stream)?;
                    events.register(&stream, Token(next), Interest::Readable)?;
                    streams.insert(next, stream);
                    next += 1;
                }
            }
            Happening::Ready { token: Token(number), .. } => {
                let Some(stream) = streams.get_mut(&number) else { continue };
                last = number;
                match echo(stream) {
                    Ok(bytes) => answered += bytes,
                    Err(_) => {
                        let gone = streams.remove(&number).expect("it is there");
                        events.deregister(&gone)?;
                    }
                }
            }
            Happening::Due(_) => {
                eprintln!("{answered} answers; {}", driven(&queue));
                timers.schedule(events.now(), REPORT, Slack::EXACT, ());
            }
        }
    }
    Ok((answered, driven(&queue)))
}

/// Answers what there is; an error is the connection's end.
fn echo(stream: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(length) => stream.write_all(&bytes[..length]).map(|()| length as u64),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}

fn driven(queue: &Steered) -> String {
    match queue.driven() {
        Driven::Polls => "polls".to_owned(),
        Driven::Interrupts => "interrupts".to_owned(),
        Driven::FellBack(why) => format!("interrupts: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_answered_and_loopback_has_no_queue() {
        let (answered, driven) = serve_itself().unwrap();
        assert_eq!(answered, REQUESTS.into());
        assert!(driven.starts_with("interrupts: "), "{driven}");
    }
}
