//! smoltcp's TCP over a path in virtual time: seconds of transfer in milliseconds, reproducibly.
//!
//! smoltcp reads no clock either, so the loop is short: both ends and the path say when to call them next, and time
//! jumps to the earliest.

use std::collections::VecDeque;
use std::error::Error;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use softtimers_core::Timestamp;
use softtimers_wan::{Wan, WanBuilder, Way};
use wan_examples::{Line, Transfer, lines, show};

/// One end: received packets, and packets to send.
#[derive(Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
}

struct Incoming(Vec<u8>);
struct Outgoing<'a>(&'a mut Vec<Vec<u8>>);

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Incoming, Outgoing<'_>)> {
        Some((Incoming(self.incoming.pop_front()?), Outgoing(&mut self.outgoing)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, 1_500);
        capabilities
    }
}

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        self.0.push(packet);
        result
    }
}

struct Host {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl Host {
    fn new(last: u8, window: usize) -> Result<Self, Box<dyn Error>> {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(last);
        let mut interface = Interface::new(config, &mut wire, Instant::from_micros(0));
        let mut full = Ok(());
        interface.update_ip_addrs(|addresses| {
            full = addresses.push(IpCidr::new(IpAddress::v4(10, 0, 0, last), 24));
        });
        full.map_err(|_| "no room for an address")?;
        let buffer = || tcp::SocketBuffer::new(vec![0; window]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_congestion_control(tcp::CongestionControl::Cubic);
        let mut sockets = SocketSet::new(vec![]);
        let socket = sockets.add(socket);
        Ok(Host { wire, interface, sockets, socket })
    }

    fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Lets it work, and puts its packets on the path.
    fn poll(&mut self, now: Timestamp, way: Way, wan: &mut Wan<Vec<u8>>) {
        self.interface.poll(instant(now), &mut self.wire, &mut self.sockets);
        for packet in self.wire.outgoing.drain(..) {
            wan.offer(now, way, packet.len() as u32, packet);
        }
    }

    fn poll_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(Timestamp::from_micros(at.total_micros().max(0) as u64))
    }
}

/// Converts to smoltcp's microseconds, rounded up, so that an event due at a time is due then.
fn instant(now: Timestamp) -> Instant {
    Instant::from_micros(now.as_nanos().div_ceil(1_000) as i64)
}

/// Sends `bytes` from a client to a server, with a buffer of `window` bytes at either end.
fn transfer(path: WanBuilder, bytes: u64, window: usize) -> Result<Transfer, Box<dyn Error>> {
    let mut wan = path.build()?;
    let (mut client, mut server) = (Host::new(1, window)?, Host::new(2, window)?);
    server.tcp().listen(80).map_err(|error| format!("listen: {error:?}"))?;
    let Host { interface, sockets, socket, .. } = &mut client;
    let connecting = sockets.get_mut::<tcp::Socket>(*socket);
    let to = (IpAddress::v4(10, 0, 0, 2), 80);
    connecting.connect(interface.context(), to, 50_000).map_err(|error| format!("connect: {error:?}"))?;

    let (mut sent, mut received) = (0, 0);
    let mut now = Timestamp::ZERO;
    let chunk = vec![0x55; 16_384];
    while received < bytes {
        while let Some((way, delivery)) = wan.pop_due(now) {
            let to = if way == Way::Up { &mut server } else { &mut client };
            to.wire.incoming.push_back(delivery.damaged());
        }
        client.poll(now, Way::Up, &mut wan);
        server.poll(now, Way::Down, &mut wan);
        while client.tcp().can_send() && sent < bytes {
            let most = chunk.len().min((bytes - sent) as usize);
            sent += client.tcp().send_slice(&chunk[..most]).map_err(|error| format!("{error:?}"))? as u64;
        }
        while server.tcp().can_recv() {
            received += server.tcp().recv(|data| (data.len(), data.len()))? as u64;
        }
        // After a buffer was filled or read, there may be work at once.
        client.poll(now, Way::Up, &mut wan);
        server.poll(now, Way::Down, &mut wan);
        let wishes = [wan.poll_at(), client.poll_at(now), server.poll_at(now)];
        let next = wishes.into_iter().flatten().min().ok_or("both ends wait for each other")?;
        now = next.max(now);
    }
    let counters = wan.direction(Way::Up).counters();
    Ok(Transfer { bytes, end: now, queue_drops: counters.queue_drops, lost: counters.lost })
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in lines()? {
        let Line { path, rate_bps, .. } = &line;
        let result = transfer(path.clone(), 4_000_000, WINDOW)?;
        show(&line, &result);
        assert!(result.goodput_bps() < *rate_bps);
        assert_eq!(transfer(path.clone(), 4_000_000, WINDOW)?, result, "the same seed, another run");
    }
    Ok(())
}

/// Bytes at either end. smoltcp retransmits a whole window when it finds a gap in it, so more than a path holds would
/// only be dropped in its queue.
const WINDOW: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers_wan::PathConfig;

    use super::*;

    /// The oldest law of windows: one window per round trip, whatever the link's rate.
    #[test]
    fn a_window_a_round_trip() {
        let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(50)));
        let result = transfer(path, 5_000_000, 60_000).unwrap();
        let expected = 60_000 * 8 * 10;
        assert!(result.goodput_bps().abs_diff(expected) < expected / 20, "{}", result.goodput_bps());
    }

    #[test]
    fn every_line_carries_it_and_none_more_than_it_can() {
        main().unwrap();
    }
}
