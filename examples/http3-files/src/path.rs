//! The path between the two, in a thread of its own: a link of 100 Mbit/s towards the client with a queue of 20 packets, and a
//! round trip of 20 ms.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use example_harness::Spacing;
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{Bottleneck, Carried, Counters, PathConfig, Queue, Relay, Wan, Way};

use crate::client::ROOM;

pub(crate) const RATE: u64 = 100_000_000;
const QUEUE: u32 = 20;
const DELAY: Duration = Duration::from_millis(10);
/// Shorter packets are the handshake's and acknowledgements.
const FULL: u32 = 1_000;

pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    stop: UnixStream,
    thread: JoinHandle<io::Result<(Counters, Spacing)>>,
}

impl Path {
    /// Creates a path to this server.
    pub(crate) fn to(server: SocketAddr) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let (say, hear) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let link = Bottleneck::bits_per_second(RATE).map_err(io::Error::other)?;
            let delayed = PathConfig::default().delay(DELAY);
            let path = Wan::builder()
                .up(delayed.clone())
                .down(delayed.bottleneck(link).queue(Queue::packets(QUEUE)));
            let config = RelayConfig { recv_buffer: ROOM, ..RelayConfig::to(server) };
            let mut relay = Relay::udp(config, path)?;
            relay.watch(&stopped, 1)?;
            let _ = say.send(relay.local_addr().ok_or(io::ErrorKind::AddrNotAvailable)?);
            let mut spacing = Spacing::new(Duration::from_nanos(1_200 * 8 * 1_000_000_000 / RATE));
            let until = relay.now() + Duration::from_secs(600);
            relay.run_observed(Some(until), |packet: &Carried| {
                if packet.way == Way::Down && packet.bytes >= FULL {
                    spacing.packet(packet.offered);
                }
            })?;
            Ok((relay.counters(Way::Down), spacing))
        });
        let address = hear.recv_timeout(Duration::from_secs(20)).map_err(io::Error::other)?;
        Ok(Path { address, stop, thread })
    }

    /// Returns the counts of packets at the link, and their spacing.
    pub(crate) fn finish(mut self) -> io::Result<(Counters, Spacing)> {
        self.stop.write_all(b"x")?;
        self.thread.join().map_err(|_| io::Error::other("the path has panicked"))?
    }
}
