//! Paces the TCP connections of a cgroup from their first packet, with the window that a known capacity allows:
//! [`TcpPace`].
//!
//! ```text
//!   TcpCapacity ──▶ settings ──▶ c/tcp.bpf.c      at the cgroup: window and pace when a connection is established
//!                           ├──▶                  when a UDP socket connects or sends: the rate
//!                           └──▶ c/flight.bpf.c   CUBIC, whose window does not shrink in a pause
//!   TcpCounts   ◀── totals ◀────┘
//! ```
//!
//! The programs are held by descriptor: with the process they end, however it ends. Connections that exist then keep the
//! pace that they have.

mod flight;
mod kernel_types;
mod udp;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Array, Map, MapData};
use aya::programs::SockOps;
use aya::programs::links::CgroupAttachMode;
use aya::programs::sock_ops::SockOpsLink;
use aya::{Ebpf, EbpfLoader};

use crate::Error;
use crate::error::{map_error, refused};
use crate::load::release_from;
use flight::Flight;
use udp::Udp;

/// The program at the cgroup, compiled from `c/tcp.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/tcp.bpf.o");

/// The capacity that is known of a path.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpCapacity {
    /// Bits a second on the wire, of all connections together. BPF can set paces up to [`TcpPace::FASTEST`].
    pub rate: NonZeroU64,
    /// The window that all connections share.
    pub window: TcpWindow,
    /// The networks at the other end of the path; without any, all addresses but this machine's loopback. At most
    /// [`TcpPace::NETWORKS`].
    pub to: Vec<(IpAddr, u8)>,
}

/// How much may be on the way at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TcpWindow {
    /// This share of what the path holds: its rate during a round trip, which each connection's handshake measures.
    OfPath(f64),
    /// So many bytes.
    Bytes(u64),
}

/// Counts since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpCounts {
    /// Connections that were given a window and a pace.
    pub connections: u64,
    /// Connections among which the rate is divided now: with data on the way, or with a congestion control that does not
    /// tell.
    pub active: u64,
    /// The most at once.
    pub most_active: u64,
    /// Flights after a pause that began with the whole window again.
    pub restored: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Timeouts of connections.
    pub timeouts: u64,
    /// Connections on whose path losses, or a growing queue, showed less than the capacity: left to their congestion
    /// control.
    pub given_back: u64,
    /// Connections with another congestion control than CUBIC: it has its own way with pauses.
    pub other_control: u64,
    /// Connections that kept the kernel's initial window, because their handshake measured no round trip.
    pub without_round_trip: u64,
    /// Settings that the kernel refused.
    pub refused: u64,
    /// The number of the last such error.
    pub last_refusal: u64,
    /// Connections to an address whose path carried less within the last minute: left to their congestion control from
    /// the start.
    pub remembered: u64,
    /// Times that a few losses showed others on a path: less was sent there for some round trips.
    pub made_room: u64,
    /// UDP sockets that were given the rate, each all of it. It holds where their packets leave by the queue fq.
    pub udp: u64,
    /// The first destination of one.
    pub udp_to: Option<IpAddr>,
}

/// Known capacity for the TCP connections of cgroups, until this is dropped.
///
/// ```no_run
/// use std::fs::File;
/// use std::num::NonZeroU64;
/// use softtimers_bpf::{TcpCapacity, TcpPace, TcpWindow};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rate = NonZeroU64::new(100_000_000).ok_or("zero")?;
/// let mut pace = TcpPace::load(&TcpCapacity { rate, window: TcpWindow::OfPath(1.0), to: vec![] })?;
/// pace.attach(&File::open("/sys/fs/cgroup/my.service")?)?;
/// # Ok(()) }
/// ```
///
/// # Cost
/// A program at each round trip, loss and change of state of a connection, and at each acknowledgement of one that has
/// CUBIC.
#[derive(Debug)]
pub struct TcpPace {
    bpf: Ebpf,
    flight: Result<Flight, Error>,
    version: u32,
    /// Detached when they are dropped.
    links: Vec<SockOpsLink>,
    udp: Result<Udp, Error>,
}

impl TcpPace {
    /// The fastest pace that BPF can set, in bit/s of data: the option takes 32 bits of bytes a second.
    pub const FASTEST: u64 = 8 * (u32::MAX as u64 - 1);
    /// The most networks of [`TcpCapacity::to`].
    pub const NETWORKS: usize = 8;

    /// Loads the programs, without an effect yet.
    ///
    /// # Errors
    /// If the process lacks the privileges, or the kernel lacks support.
    pub fn load(capacity: &TcpCapacity) -> Result<Self, Error> {
        release_from(NEEDED)?;
        let mut bpf = EbpfLoader::new().load(OBJECT).map_err(|error| refused("maps", &error))?;
        program(&mut bpf)?.load().map_err(|error| refused(PROGRAM, &error))?;
        // Before, the kernel holds what the window cuts back for half a round trip, not 1 ms (`tcp_tso_should_defer`).
        let limits = capacity.rate.get() > SHORT_TRAINS && release_from((6, 18)).is_ok();
        // fq paces in the place of the kernel's timer, which opens a window that is held. A network namespace has no such file.
        let fq = std::fs::read("/proc/sys/net/core/default_qdisc").is_ok_and(|queue| queue == b"fq\n");
        let flight =
            Flight::register(limits && !fq, |name| Some(data(bpf.map(name)?)?.fd().as_fd().as_raw_fd()));
        let mut pace = TcpPace { udp: Udp::load(&mut bpf), bpf, flight, version: 0, links: vec![] };
        pace.set(capacity)?;
        Ok(pace)
    }

    /// Also holds for connections of this cgroup (version 2) and of those below it that are established from now on.
    ///
    /// # Errors
    /// If it is no cgroup, or the kernel refuses.
    pub fn attach(&mut self, cgroup: impl AsFd) -> Result<(), Error> {
        if let Ok(udp) = &mut self.udp {
            udp.attach(&mut self.bpf, &cgroup)?;
        }
        let program = program(&mut self.bpf)?;
        // Links stand beside those of others in any case, and take no such flag.
        let link = program.attach(cgroup, CgroupAttachMode::Single);
        let link = link.and_then(|id| program.take_link(id)).map_err(|error| refused(PROGRAM, &error))?;
        self.links.push(link);
        Ok(())
    }

    /// Returns why windows are not kept in pauses, if they are not: connections then begin again as their congestion
    /// control has it.
    pub fn lacks(&self) -> Option<&Error> {
        self.flight.as_ref().err()
    }

    /// Returns why UDP sockets are not given the rate, if they are not.
    pub fn lacks_udp(&self) -> Option<&Error> {
        self.udp.as_ref().err()
    }

    /// Changes the capacity. Connections have their new share with their next acknowledgement or round trip.
    ///
    /// # Errors
    /// If the kernel refuses the map's value.
    pub fn set(&mut self, capacity: &TcpCapacity) -> Result<(), Error> {
        self.version = self.version.wrapping_add(1);
        let control = self.flight.as_ref().map_or(([0; 16], 0), Flight::control);
        let setting = capacity.encode(self.version, control);
        let settings = self.bpf.map_mut("settings").ok_or_else(missing)?;
        let mut settings: Array<_, [u64; SETTING]> = settings.try_into().map_err(map_error)?;
        settings.set(0, setting, 0).map_err(map_error)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn counts(&self) -> Result<TcpCounts, Error> {
        let totals: Array<&MapData, [u64; 16]> =
            self.bpf.map("totals").ok_or_else(missing)?.try_into().map_err(map_error)?;
        let all = totals.get(&0, 0).map_err(map_error)?;
        let [connections, active, most_active, restored, retransmitted, timeouts, given_back, ..] = all;
        let [.., other_control, without_round_trip, refused, last_refusal, _, _, _, _, _] = all;
        let [.., remembered, made_room, udp, first, last] = all;
        // In the network's order already.
        let [first, last] = [first, last].map(|half| u128::from(u64::from_be_bytes(half.to_ne_bytes())));
        let udp_to = (udp > 0).then(|| IpAddr::from(Ipv6Addr::from(first << 64 | last)).to_canonical());
        Ok(TcpCounts {
            connections,
            active,
            most_active,
            restored,
            retransmitted,
            timeouts,
            given_back,
            other_control,
            without_round_trip,
            refused,
            last_refusal,
            remembered,
            made_room,
            udp,
            udp_to,
        })
    }
}

impl TcpCapacity {
    /// Returns `struct setting` of `include/tcp.bpf.h`.
    fn encode(&self, version: u32, (control, has_control): ([u8; 16], u32)) -> [u64; SETTING] {
        let (bytes, scale) = match self.window {
            TcpWindow::OfPath(share) => (0, ((share * 1024.0).round() as u32).max(1)),
            TcpWindow::Bytes(bytes) => (bytes.max(1), 0),
        };
        let networks = &self.to[..self.to.len().min(TcpPace::NETWORKS)];
        let mut raw = Vec::with_capacity(SETTING * 8);
        raw.extend((self.rate.get() / 8).max(1).to_ne_bytes());
        raw.extend(bytes.to_ne_bytes());
        for word in [scale, version, networks.len() as u32, has_control] {
            raw.extend(word.to_ne_bytes());
        }
        raw.extend(control);
        for &(address, length) in networks {
            let (address, length) = match address {
                IpAddr::V4(address) => (address.to_ipv6_mapped(), length.min(32) + 96),
                IpAddr::V6(address) => (address, length.min(128)),
            };
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            raw.extend(address.octets());
            raw.extend(mask.to_be_bytes());
        }
        raw.resize(SETTING * 8, 0);
        std::array::from_fn(|at| raw[at * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)))
    }
}

fn program(bpf: &mut Ebpf) -> Result<&mut SockOps, Error> {
    let missing =
        || Error::Refused { program: PROGRAM.to_owned(), why: "the object does not contain it".to_owned() };
    bpf.program_mut(PROGRAM).ok_or_else(missing)?.try_into().map_err(|error| refused(PROGRAM, &error))
}

fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::SkStorage(data) => Some(data),
        _ => None,
    }
}

fn missing() -> Error {
    Error::Map("it is missing".to_owned())
}

/// The kernel hands over what a pace is in 1/1024 s at a time (`sk_pacing_shift`): up to this rate 16 packets at most.
const SHORT_TRAINS: u64 = 16 * 1_448 * 8 * 1_024;
const PROGRAM: &str = "on_tcp";
/// The least Linux with storage of sockets that a program at a cgroup may use, and links.
const NEEDED: (u32, u32) = (5, 10);
/// Words of `struct setting`.
const SETTING: usize = 6 + TcpPace::NETWORKS * 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_laid_out_as_the_programs_read_them() {
        let capacity = TcpCapacity {
            rate: NonZeroU64::new(80_000_000).unwrap(),
            window: TcpWindow::OfPath(0.5),
            to: vec![("10.0.0.0".parse().unwrap(), 8), ("2001:db8::".parse().unwrap(), 32)],
        };
        let words = capacity.encode(7, (*b"name\0\0\0\0\0\0\0\0\0\0\0\0", 2));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        assert_eq!((words[0], words[1]), (10_000_000, 0));
        assert_eq!([16, 20, 24, 28].map(word), [512, 7, 2, 2]);
        assert_eq!(&bytes[32..36], b"name");
        assert_eq!(bytes[48..64], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0]);
        assert_eq!(bytes[64..80], [vec![0xff; 13], vec![0; 3]].concat()[..]);
        assert_eq!(bytes[80..84], [0x20, 1, 0xd, 0xb8]);
        assert_eq!(bytes[96..112], [vec![0xff; 4], vec![0; 12]].concat()[..]);
        let fixed = TcpCapacity { window: TcpWindow::Bytes(65_536), to: vec![], ..capacity };
        let words = fixed.encode(1, ([0; 16], 0));
        assert_eq!(words[1], 65_536);
        assert_eq!(words[3], 0);
        assert_eq!(words[6..], [0; 32]);
    }
}
