//! The path between the two, in a thread of its own, and how packets came to its link.

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use softtimers::Timestamp;
use softtimers_measure::processor::Processor;
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{Bottleneck, Carried, Counters, PathConfig, Queue, Relay, Wan, Way};

/// A slow link with a queue, and the round trip without queueing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) mbit: u64,
    pub(crate) packets: u32,
    pub(crate) millis: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s, {} packets, {} ms", self.mbit, self.packets, self.millis)
    }
}

impl Line {
    pub(crate) const SHORT: Line = Line { mbit: 100, packets: 20, millis: 20 };
    pub(crate) const FAST: Line = Line { mbit: 300, packets: 30, millis: 20 };

    /// Returns the delay each way.
    fn delay(self) -> Duration {
        Duration::from_micros(self.millis * 500)
    }

    /// Returns both directions of it.
    pub(crate) fn ways(self) -> io::Result<(PathConfig, PathConfig)> {
        let link = Bottleneck::bits_per_second(self.mbit * 1_000_000).map_err(io::Error::other)?;
        let delayed = PathConfig::default().delay(self.delay());
        Ok((delayed.clone().bottleneck(link).queue(Queue::packets(self.packets)), delayed))
    }
}

/// A running path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    stop: UnixStream,
    thread: JoinHandle<io::Result<Seen>>,
}

/// The packets upwards that the path has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) counters: Counters,
    /// The lengths of the bursts.
    pub(crate) bursts: Vec<u32>,
    /// The packets that were not dropped.
    pub(crate) crossed: Vec<Crossed>,
}

/// A packet that has crossed the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossed {
    /// The time at which it came to the link.
    pub(crate) offered: Timestamp,
    pub(crate) bytes: u32,
    /// How long the link was busy from then on, this packet included.
    pub(crate) behind: Duration,
}

impl Path {
    pub(crate) fn start(line: Line, server: SocketAddr, cpu: Option<Processor>) -> io::Result<Path> {
        let (stop, stopped) = UnixStream::pair()?;
        let (say, hear) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _kept = cpu.map(Processor::keep).transpose()?;
            let (up, down) = line.ways()?;
            let recv_buffer = crate::run::RECEIVE_BUFFER;
            let config = RelayConfig { recv_buffer, ..RelayConfig::to(server) };
            let mut relay = Relay::udp(config, Wan::builder().up(up).down(down))?;
            relay.watch(&stopped, 1)?;
            let _ = say.send(relay.local_addr().ok_or(io::ErrorKind::AddrNotAvailable)?);
            // Half the time of a packet of 1,200 bytes.
            let apart = 1_200 * 8 * 1_000 / line.mbit / 2;
            let (mut first, mut last, mut length, mut bursts) = (None, 0, 0, vec![]);
            let mut crossed = vec![];
            let delay = line.delay();
            let note = |packet: &Carried| {
                if packet.way == Way::Down || packet.bytes < 1_000 {
                    return;
                }
                let took = packet.due.saturating_duration_since(packet.offered);
                let behind = took.saturating_sub(delay);
                crossed.push(Crossed { offered: packet.offered, bytes: packet.bytes, behind });
                let offered = packet.offered.as_nanos();
                let warm = offered - *first.get_or_insert(offered) > 300_000_000;
                if offered - last > apart {
                    let ended = std::mem::take(&mut length);
                    bursts.extend(warm.then_some(ended));
                }
                (last, length) = (offered, length + 1);
            };
            let until = relay.now() + Duration::from_secs(600);
            relay.run_observed(Some(until), note)?;
            Ok(Seen { counters: relay.counters(Way::Up), bursts, crossed })
        });
        let address = hear.recv_timeout(Duration::from_secs(5)).map_err(io::Error::other)?;
        Ok(Path { address, stop, thread })
    }

    pub(crate) fn finish(mut self) -> io::Result<Seen> {
        self.stop.write_all(b"x")?;
        self.thread.join().map_err(|_| io::Error::other("the relay has panicked"))?
    }
}
