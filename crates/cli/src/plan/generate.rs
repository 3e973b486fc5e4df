//! What a run of `send --driver xdp` will do.

use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use serde::Serialize;
use softtimers_core::{CatchUp, Rate};
use softtimers_net::packet::{GeneratorConfig, complete_ipv4_checksum};

use super::send::target;
use super::{DEFAULT_DURATION, End, nanos};
use crate::address;
use crate::args::{Busy, ClockName, Driver, MacAddress, SendArgs, Timer};
use crate::failure::Failure;
use crate::output::Output;
use crate::pattern::SendPattern;
use crate::processor::Processor;
use crate::wire::{Datagram, MIN_SIZE, SCHEDULED_AT, SEQUENCE_AT};

/// A run of `send --driver xdp`.
#[derive(Clone, PartialEq, Debug)]
pub struct GeneratePlan {
    /// The end of a cable.
    pub interface: String,
    /// Where to, by both kinds of address.
    pub destination: (SocketAddrV4, MacAddress),
    /// Where from, as far as it was given.
    pub source: (Option<SocketAddrV4>, Option<MacAddress>),
    /// Datagrams a second.
    pub rate: Rate,
    /// Datagrams that leave back to back: 1 to 64.
    pub quantum: u32,
    /// Bytes of payload, at least [`MIN_SIZE`].
    pub size: usize,
    /// How far behind it may fall.
    pub catch_up: CatchUp,
    /// When it ends.
    pub end: End,
    /// Where it runs.
    pub cpu: Option<Processor>,
    /// How to print the report.
    pub output: Output,
}

/// The `config` object of `send --driver xdp`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GenerateConfig {
    /// `xdp`.
    pub driver: Driver,
    /// Where it leaves.
    pub interface: String,
    /// Where to.
    pub address: String,
    /// The same of Ethernet.
    pub mac: String,
    /// Departures a second.
    pub target_pps: f64,
    /// Time between departures, rounded down.
    pub target_interval_ns: u64,
    /// The longest delay that is made up; `null` for any.
    pub catch_up_ns: Option<u64>,
    /// Payload of a datagram.
    pub size_bytes: usize,
    /// Datagrams that leave in one go.
    pub quantum_packets: u32,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most datagrams; `null` for no bound.
    pub count: Option<u64>,
    /// The processor that it is kept on.
    pub cpu: Option<usize>,
}

impl GeneratePlan {
    /// Understands the arguments of `send`, if they ask for this.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn of(args: &SendArgs) -> Result<Option<Self>, Failure> {
        let given = &args.driver;
        if given.driver == Driver::Socket {
            let flags = [
                ("--iface", given.iface.is_some()),
                ("--to-mac", given.to_mac.is_some()),
                ("--from-mac", given.from_mac.is_some()),
                ("--from", given.from.is_some()),
            ];
            return match flags.into_iter().find(|&(_, given)| given) {
                Some((flag, _)) => {
                    Err(Failure::usage(format_args!("{flag}: allowed with --driver xdp only")))
                }
                None => Ok(None),
            };
        }
        check_flags(args)?;
        for (flag, mac) in [("--to-mac", given.to_mac), ("--from-mac", given.from_mac)] {
            if let Some(mac) = mac.filter(|mac| !mac.is_one_station()) {
                return Err(Failure::usage(format_args!("{flag} {mac}: not the address of one station")));
            }
        }
        let missing = |flag| Failure::usage(format_args!("--driver xdp: {flag} is required with it"));
        let address = address::resolve(&args.address)?;
        address::check_destination(address)?;
        let SocketAddr::V4(address) = address else {
            return Err(Failure::usage(format_args!("{address}: --driver xdp sends over IPv4 only")));
        };
        let rate = target(args)?;
        Ok(Some(GeneratePlan {
            interface: given.iface.clone().ok_or_else(|| missing("--iface NAME"))?,
            destination: (address, given.to_mac.ok_or_else(|| missing("--to-mac MAC"))?),
            source: (given.from, given.from_mac),
            rate,
            quantum: args.quantum.at(rate),
            size: args.size as usize,
            catch_up: args.engine.catch_up,
            end: End {
                duration: args.end.duration.or(args.end.count.is_none().then_some(DEFAULT_DURATION)),
                count: args.end.count,
            },
            cpu: args.engine.cpu.map(Processor::new).transpose()?,
            output: Output::from(&args.output),
        }))
    }

    /// What the generator is to do, from these addresses.
    pub fn generator(&self, from: SocketAddrV4, from_mac: MacAddress) -> GeneratorConfig {
        let (to, to_mac) = self.destination;
        GeneratorConfig {
            frame: frame((to, to_mac), (from, from_mac), self.size, self.rate.interval()),
            head: HEADERS + MIN_SIZE,
            number_at: Some(HEADERS + SEQUENCE_AT),
            due_at: Some(HEADERS + SCHEDULED_AT),
            rate: self.rate,
            burst: self.quantum,
            catch_up: self.catch_up.time,
            count: self.end.count,
            duration: self.end.duration,
        }
    }

    /// The configuration in effect, for the report.
    pub fn config(&self) -> GenerateConfig {
        let catch_up = Some(self.catch_up.time).filter(|&time| time < CatchUp::ALL.time);
        GenerateConfig {
            driver: Driver::Xdp,
            interface: self.interface.clone(),
            address: self.destination.0.to_string(),
            mac: self.destination.1.to_string(),
            target_pps: self.rate.packets_per_second(),
            target_interval_ns: nanos(self.rate.interval()),
            catch_up_ns: catch_up.map(nanos),
            size_bytes: self.size,
            quantum_packets: self.quantum,
            duration_s: self.end.duration.map(|duration| duration.as_secs_f64()),
            count: self.end.count,
            cpu: self.cpu.map(Processor::number),
        }
    }
}

/// Refuses what the program would silently ignore.
fn check_flags(args: &SendArgs) -> Result<(), Failure> {
    let engine = &args.engine;
    let flags = [
        ("--pattern", args.pattern != SendPattern::Constant),
        ("--seed", args.seed.is_some()),
        ("--burst-interval", args.burst_interval.is_some()),
        ("--flows", args.flows != 1),
        ("--phase", args.phase.is_some()),
        ("--train", args.train.is_some()),
        ("--no-gso", args.no_gso),
        ("--timer", engine.timer != Timer::Soft),
        ("--clock", engine.clock != ClockName::Monotonic),
        ("--slack", engine.slack.is_some()),
        ("--idle", engine.idle.is_some()),
        ("--cpu-budget", engine.cpu_budget.is_some()),
        ("--sched-slice", engine.sched_slice.is_some()),
        ("--busy", engine.busy != Busy::None),
        ("--echo-batch", engine.echo_batch.is_some()),
        ("--disable-source", engine.disable_source.is_some()),
        ("--no-handshake", engine.no_handshake),
        ("--json-stream", args.output.json_stream),
    ];
    match flags.into_iter().find(|&(_, given)| given) {
        Some((flag, _)) => Err(Failure::usage(format_args!("{flag}: allowed with --driver socket only"))),
        None => Ok(()),
    }
}

/// A datagram of softtimers traffic as a frame, without a checksum of UDP, for each will have another number.
fn frame(
    (to, to_mac): (SocketAddrV4, MacAddress),
    (from, from_mac): (SocketAddrV4, MacAddress),
    size: usize,
    interval: Duration,
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADERS + size);
    frame.extend(to_mac.0);
    frame.extend(from_mac.0);
    frame.extend(ETHERTYPE_IPV4.to_be_bytes());
    let half = |length: usize| (length as u16).to_be_bytes();
    frame.extend([0x45, 0]);
    frame.extend(half(20 + 8 + size));
    // Not to be fragmented, and of no series then.
    frame.extend([0, 0, 0x40, 0, TTL, UDP, 0, 0]);
    frame.extend(from.ip().octets());
    frame.extend(to.ip().octets());
    complete_ipv4_checksum(&mut frame[ETHERNET..]);
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend(half(8 + size));
    frame.extend([0, 0]);
    frame.resize(HEADERS + size, 0);
    let scheduled = softtimers_core::Timestamp::ZERO;
    Datagram::Data { flow: 0, sequence: 0, scheduled, interval, token: None }.write(&mut frame[HEADERS..]);
    frame
}

const ETHERNET: usize = 14;
/// Those of Ethernet, IPv4 and UDP.
pub(crate) const HEADERS: usize = ETHERNET + 20 + 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const UDP: u8 = 17;
const TTL: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_datagram_of_ours() {
        let (to, from) = ("10.1.2.3:9000".parse().unwrap(), "198.18.0.1:9".parse().unwrap());
        let (to_mac, from_mac) = (MacAddress([2; 6]), MacAddress([4; 6]));
        let frame = frame((to, to_mac), (from, from_mac), 100, Duration::from_micros(5));
        assert_eq!((frame.len(), &frame[..14]), (142, &[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0][..]));
        let halves = frame[14..34].chunks(2).map(|half| u32::from(half[0]) << 8 | u32::from(half[1]));
        let sum: u32 = halves.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(&frame[26..42], [198, 18, 0, 1, 10, 1, 2, 3, 0, 9, 0x23, 0x28, 0, 108, 0, 0]);
        let Ok(Datagram::Data { flow: 0, sequence: 0, interval, .. }) = Datagram::parse(&frame[HEADERS..])
        else {
            panic!("{frame:?}")
        };
        assert_eq!(interval, Duration::from_micros(5));
    }
}
