//! `send --driver xdp`: a program in the kernel that sends, out of one end of a virtual cable.
//!
//! The report is that of a loop. Gaps, bursts and trigger states belong to a loop, and there is none: those keys are
//! `null` or empty. Datagrams that the cable had no room for are lost, and counted in `socket.no_buffers`.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use softtimers::{Clock, Monotonic};
use softtimers_core::{CatchUp, Rate, Timestamp};
use softtimers_measure::distribution::Distribution;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::Processor;
use softtimers_measure::units::show_duration;
use softtimers_measure::usage::Usage;
use softtimers_net::packet::{Generated, Generator, GeneratorConfig, Interface, Route, RouteWatch};
use softtimers_net::udp::UdpSocket;

use crate::dscp::Dscp;
use crate::frame::Heading;
use crate::send::{Outcome, SendReport, SocketReport};
use crate::traffic::{End, nanos};
use crate::wire::{Datagram, Hello, MIN_SIZE, SCHEDULED_AT, SEQUENCE_AT};

/// A run of `send --driver xdp`.
#[derive(Clone, PartialEq, Debug)]
pub struct GeneratePlan {
    /// The end of a cable.
    pub interface: String,
    /// The destination, and its address of Ethernet; `None` for the neighbour that the route names.
    pub destination: (SocketAddrV4, Option<MacAddress>),
    /// The source, as far as it was given.
    pub source: (Option<SocketAddrV4>, Option<MacAddress>),
    /// The rate in datagrams a second.
    pub rate: Rate,
    /// Datagrams that leave back to back: 1 to 64.
    pub quantum: u32,
    /// Bytes of payload, at least [`MIN_SIZE`].
    pub size: usize,
    /// The limit on falling behind.
    pub catch_up: CatchUp,
    /// The end of the run.
    pub end: End,
    /// The CPU to run on.
    pub cpu: Option<Processor>,
    /// The class that datagrams ask the network for.
    pub dscp: Dscp,
}

impl GeneratePlan {
    /// Finds the station that frames go to, unless the plan names one: the kernel resolves the neighbour, as for any
    /// datagram. Fails for an interface that the run may not use.
    ///
    /// # Errors
    /// A usage failure for an interface that it must not use, and if the route leaves by another one or leads to no
    /// station; a failed check if no station answers there.
    pub fn resolve(&mut self) -> Result<(), Failure> {
        let interface = cable(self)?;
        if self.destination.1.is_none() {
            self.destination.1 = Some(station(self, &interface)?);
        }
        Ok(())
    }

    /// Prepares the interface; the station must be known.
    ///
    /// # Errors
    /// A usage failure for an interface that it must not use, not-possible without the privileges.
    pub fn prepare(&self) -> Result<Prepared<'_>, Failure> {
        generator(self).map(|generator| Prepared { plan: self, generator })
    }

    /// Returns the generator's configuration with these addresses.
    fn config_from(&self, from: SocketAddrV4, from_mac: MacAddress, to_mac: MacAddress) -> GeneratorConfig {
        GeneratorConfig {
            frame: frame(
                (self.destination.0, to_mac),
                (from, from_mac),
                (self.size, self.dscp),
                self.rate.interval(),
            ),
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
        let GeneratePlan { interface, destination, source: _, rate, quantum, size, catch_up, end, cpu, dscp } =
            self;
        let catch_up = Some(catch_up.time).filter(|&time| time < CatchUp::ALL.time);
        GenerateConfig {
            driver: "xdp",
            interface: interface.clone(),
            address: destination.0.to_string(),
            mac: destination.1.map(|mac| mac.to_string()),
            dscp: dscp.number(),
            target_pps: rate.packets_per_second(),
            target_interval_ns: nanos(rate.interval()),
            catch_up_ns: catch_up.map(nanos),
            size_bytes: *size,
            quantum_packets: *quantum,
            duration_s: end.duration.map(|duration| duration.as_secs_f64()),
            count: end.count,
            cpu: cpu.map(Processor::number),
        }
    }
}

/// A run that is ready to send.
#[derive(Debug)]
pub struct Prepared<'a> {
    plan: &'a GeneratePlan,
    generator: Generator,
}

impl Prepared<'_> {
    /// Sends until the plan's end, or until `interrupt` reports a signal.
    ///
    /// # Errors
    /// The failure that ended the run.
    pub fn send(mut self, interrupt: &Interrupt) -> Result<Outcome, Failure> {
        let (plan, generator) = (self.plan, &mut self.generator);
        let _kept = plan.cpu.map(Processor::keep).transpose();
        let _kept = _kept.map_err(|error| Failure::broke_off("keeping the loop on its CPU", &error))?;
        let before = Usage::now();
        while !generator.is_done() && !interrupt.arrived() {
            generator.run().map_err(|error| failure(plan, &error))?;
        }
        let usage = Usage::now().since(&before);
        let generated = generator.generated().map_err(|error| failure(plan, &error))?;
        let lost = (generated.refused > 0).then(|| {
            format!("the other end of {} had no room for {} datagrams", plan.interface, generated.refused)
        });
        Ok(Outcome {
            report: report(plan, &generated, &usage),
            skew: None,
            trace: None,
            fallbacks: lost.into_iter().collect(),
            broke_off: None,
        })
    }
}

/// The `config` object of `send --driver xdp`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GenerateConfig {
    /// The driver, which is `xdp`.
    pub driver: &'static str,
    /// The interface that datagrams leave by.
    pub interface: String,
    /// The destination.
    pub address: String,
    /// The destination's Ethernet address, once it is known.
    pub mac: Option<String>,
    /// The differentiated services code point of every datagram; 0 is best effort.
    pub dscp: u8,
    /// The rate asked for, in departures a second.
    pub target_pps: f64,
    /// Time between departures, rounded down.
    pub target_interval_ns: u64,
    /// The longest delay that is made up; `null` for any.
    pub catch_up_ns: Option<u64>,
    /// Payload of a datagram.
    pub size_bytes: usize,
    /// Datagrams that leave at once.
    pub quantum_packets: u32,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most datagrams; `null` for no bound.
    pub count: Option<u64>,
    /// The CPU it runs on.
    pub cpu: Option<usize>,
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Returns whether the address belongs to one station: it is neither zero nor a multicast address.
    pub fn is_one_station(&self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = |part: &str| {
            let digits = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(MacAddress).ok_or_else(|| "six bytes such as 02:00:00:00:00:01 are allowed".to_owned())
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Returns the end of a cable that the plan names, if it carries datagrams of the plan's size.
fn cable(plan: &GeneratePlan) -> Result<Interface, Failure> {
    let interface = Interface::named(&plan.interface).map_err(|error| failure(plan, &error))?;
    Generator::check(&interface).map_err(|error| failure(plan, &error))?;
    let most = (interface.mtu() as usize).saturating_sub(28).min(LONGEST_FRAME);
    if plan.size > most {
        return Err(Failure::usage(format_args!(
            "--size {}: {} carries datagrams of at most {most} bytes",
            plan.size, plan.interface
        )));
    }
    Ok(interface)
}

fn generator(plan: &GeneratePlan) -> Result<Generator, Failure> {
    let interface = cable(plan)?;
    let to_mac = plan.destination.1.ok_or_else(|| Failure::usage("--driver xdp: no station is known"))?;
    let own = || {
        let all = interface.addresses().ok()?;
        let first = all.into_iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })?;
        Some(SocketAddrV4::new(first, DISCARD))
    };
    let (from, from_mac) = plan.source;
    let from = from.or_else(own).unwrap_or(SocketAddrV4::new(FOR_BENCHMARKS, DISCARD));
    let from_mac = from_mac.unwrap_or(MacAddress(interface.hardware_address()));
    Generator::new(interface, plan.config_from(from, from_mac, to_mac)).map_err(|error| failure(plan, &error))
}

/// Returns the neighbour at the interface, as the route to the destination names it.
fn station(plan: &GeneratePlan, interface: &Interface) -> Result<MacAddress, Failure> {
    let to = plan.destination.0.into();
    let no = |why: &dyn fmt::Display| {
        Failure::usage(format_args!("--driver xdp: {to}: {why}; --to-mac MAC says where frames go"))
    };
    let broke_off = |error: io::Error| Failure::broke_off("--driver xdp: asking for the neighbour", &error);
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).map_err(broke_off)?;
    plan.dscp.mark(&socket).map_err(broke_off)?;
    socket.connect(to).map_err(|error| no(&error))?;
    let from = socket.local_addr().map_err(broke_off)?;
    let mut watch = RouteWatch::new().map_err(broke_off)?;
    let route = Route::between(from, to).map_err(|error| no(&error))?;
    if route.interface().index() != interface.index() {
        return Err(no(&format_args!("its route leaves by {}, not by --iface", route.interface().name())));
    }
    let deadline = Monotonic.now() + NEIGHBOUR_PATIENCE;
    let mut asked = false;
    loop {
        if let Some(station) = route.station().map_err(broke_off)? {
            return Ok(MacAddress(station));
        }
        if !std::mem::replace(&mut asked, true) {
            // A message that receivers accept from any sender, and answer without remembering it. The kernel may not
            // accept it.
            let hello = Hello { nonce: 0, flow: 0, flows: 0, interval_ns: 0, token: None };
            let _ = socket.send(&Datagram::Hello(hello).encode());
        }
        let left = deadline.saturating_duration_since(Monotonic.now());
        if left.is_zero() {
            return Err(Failure::check(format_args!(
                "--driver xdp: {} has not answered at {} for {}; --to-mac MAC says where frames go",
                route.next(),
                plan.interface,
                show_duration(NEIGHBOUR_PATIENCE)
            )));
        }
        // An interruption does no harm: the neighbour is checked again.
        let _ = poll(&mut [PollFd::new(&watch, PollFlags::IN)], left.try_into().ok().as_ref());
        watch.take(Some(&route)).map_err(broke_off)?;
    }
}

fn failure(plan: &GeneratePlan, error: &io::Error) -> Failure {
    let what = format_args!("--iface {}: {error}", plan.interface);
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::NotFound => Failure::usage(what),
        ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
            Failure::not_possible(format_args!("--driver xdp: {error}"))
        }
        _ => Failure::check(what),
    }
}

fn report(plan: &GeneratePlan, generated: &Generated, usage: &Usage) -> SendReport {
    let Generated { sent, refused, forfeited, span, bursts, late, latest } = *generated;
    let seconds = usage.wall.as_secs_f64().max(f64::MIN_POSITIVE);
    // All bursts but the last left between the first and the last departure.
    let achieved = (bursts > 1 && !span.is_zero())
        .then(|| sent as f64 * (bursts - 1) as f64 / bursts as f64 / span.as_secs_f64());
    SendReport {
        target_pps: plan.rate.packets_per_second(),
        achieved_pps: achieved,
        sent,
        forfeited,
        late_ns: Distribution {
            count: bursts,
            max: (bursts > 0).then(|| nanos(latest)),
            mean: (bursts > 0).then(|| late.as_nanos() as f64 / bursts as f64),
            ..Distribution::default()
        },
        packets_per_turn: (bursts > 0).then(|| (sent + refused) as f64 / bursts as f64),
        cpu_share: usage.cpu.as_secs_f64() / seconds,
        cpu_ns_per_packet: (sent > 0).then(|| usage.cpu.as_nanos() as f64 / sent as f64),
        wakeups: usage.wakeups,
        socket: SocketReport { no_buffers: refused, ..SocketReport::default() },
        ..SendReport::default()
    }
}

/// The kernel asks three times, a second apart.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(3);
/// The longest frame that the kernel runs programs over, less the headers.
const LONGEST_FRAME: usize = 3_300;
/// The discard port, at which no program answers.
const DISCARD: u16 = 9;
/// An address of the network that is set aside for this (RFC 2544).
const FOR_BENCHMARKS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Returns a softtimers datagram as a frame, without a UDP checksum, since each one will have another number.
fn frame(
    (to, to_mac): (SocketAddrV4, MacAddress),
    (from, from_mac): (SocketAddrV4, MacAddress),
    (size, dscp): (usize, Dscp),
    interval: Duration,
) -> Vec<u8> {
    let mut heading = Heading::new(from.into(), to.into(), (TTL, dscp), size);
    heading.between(from_mac.0, to_mac.0);
    let mut frame = vec![0; heading.len() + size];
    heading.write(&mut frame);
    let scheduled = Timestamp::ZERO;
    Datagram::Data { flow: 0, sequence: 0, scheduled, interval, token: None }.write(&mut frame[HEADERS..]);
    frame
}

/// The headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
const TTL: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_datagram_of_ours() {
        let (to, from) = ("10.1.2.3:9000".parse().unwrap(), "198.18.0.1:9".parse().unwrap());
        let (to_mac, from_mac) = (MacAddress([2; 6]), MacAddress([4; 6]));
        let frame = frame((to, to_mac), (from, from_mac), (100, Dscp::default()), Duration::from_micros(5));
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

    #[test]
    fn addresses_read_back() {
        let address = MacAddress([2, 0, 0xab, 0xcd, 0, 0xff]);
        assert_eq!(address.to_string(), "02:00:ab:cd:00:ff");
        assert_eq!(address.to_string().parse(), Ok(address));
        assert_eq!("02:00:AB:cd:00:FF".parse(), Ok(address));
        for text in [
            "",
            "02",
            "02:00:ab:cd:00",
            "02:00:ab:cd:00:ff:00",
            "2:0:a:c:0:f",
            "+2:00:ab:cd:00:ff",
            "0g:00:ab:cd:00:ff",
        ] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
    }
}
