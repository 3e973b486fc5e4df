//! `cargo lab generate`: loads a forwarder by a program in the kernel, out of one end of a virtual cable (`generator`).
//!
//! Its datagrams are those of `softtimers send`, so that receivers can number and time them. They have no UDP checksum, since
//! each has another number. Nobody is asked first, and no end is announced: `softtimers recv --any` receives them.

mod generator;

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use softtimers_core::{Rate, Timestamp};
use softtimers_load::wire::{Datagram, MIN_SIZE, SCHEDULED_AT, SEQUENCE_AT};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::Processor;
use softtimers_measure::units::{SendRate, positive_duration, rate, run_time};
use softtimers_net::packet::{Interface, complete_ipv4_checksum};

use generator::{Generated, Generator, GeneratorConfig};

/// The traffic, and where it leaves.
#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    /// IPv4 address and port that the datagrams go to
    address: SocketAddrV4,
    /// End of a virtual cable (veth) that they leave by
    #[arg(long, value_name = "NAME")]
    iface: String,
    /// Ethernet address that they go to: 02:00:00:00:00:01
    #[arg(long, value_name = "MAC", value_parser = station)]
    to_mac: Station,
    /// IPv4 address and port that they come from
    #[arg(long, value_name = "IP:PORT", default_value_t = SocketAddrV4::new(FOR_BENCHMARKS, DISCARD))]
    from: SocketAddrV4,
    /// Datagrams a second: 25kpps
    #[arg(long, value_parser = rate)]
    rate: SendRate,
    /// Datagrams that leave back to back: 1 to 64
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    quantum: u32,
    /// Payload of a datagram in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MIN_SIZE as u32)]
    size: u32,
    /// Time by which it may fall behind before it skips datagrams
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "10ms")]
    catch_up: Duration,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = run_time, required_unless_present = "count")]
    duration: Option<Duration>,
    /// End after this number of datagrams
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// CPU to run on, which it uses whole
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
}

/// An address of Ethernet.
type Station = [u8; 6];

/// Sends until the end or a signal, and prints what left as an object. The exit codes are those of the command.
pub fn run(arguments: &Arguments) -> ExitCode {
    match generated(arguments) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("cargo lab generate: {failure}");
            failure.exit().into()
        }
    }
}

/// # Errors
/// A usage failure for traffic or an interface that is not allowed, not-possible without the privileges.
fn generated(arguments: &Arguments) -> Result<Value, Failure> {
    let Arguments {
        address: _,
        iface,
        to_mac: _,
        from: _,
        rate,
        quantum,
        size,
        catch_up,
        duration,
        count,
        cpu,
    } = arguments;
    let failure = |error: io::Error| {
        let what = format_args!("--iface {iface}: {error}");
        match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::NotFound => Failure::usage(what),
            ErrorKind::PermissionDenied | ErrorKind::Unsupported => Failure::not_possible(what),
            _ => Failure::check(what),
        }
    };
    let interface = Interface::named(iface).map_err(failure)?;
    let most = interface.mtu().saturating_sub(28).min(LONGEST_DATAGRAM);
    if !(MIN_SIZE as u32..=most).contains(size) {
        let allowed = format_args!("--size {size}: {MIN_SIZE} to {most} bytes are allowed at {iface}");
        return Err(Failure::usage(allowed));
    }
    let rate = rate.of_packets(*size).map_err(|error| Failure::usage(format_args!("--rate: {error}")))?;
    let config = GeneratorConfig {
        frame: frame(arguments, interface.hardware_address(), rate),
        head: HEADERS + MIN_SIZE,
        number_at: Some(HEADERS + SEQUENCE_AT),
        due_at: Some(HEADERS + SCHEDULED_AT),
        rate,
        burst: *quantum,
        catch_up: *catch_up,
        count: *count,
        duration: *duration,
    };
    let mut generator = Generator::new(interface, config).map_err(failure)?;
    let interrupt = Interrupt::listen().map_err(failure)?;
    let kept = cpu.map(Processor::new).transpose()?.map(Processor::keep).transpose();
    let _kept = kept.map_err(|error| Failure::broke_off("keeping the loop on its CPU", &error))?;
    while !generator.is_done() && !interrupt.arrived() {
        generator.run().map_err(failure)?;
    }
    Ok(report(&generator.generated().map_err(failure)?))
}

/// The names are those of `send`, where it has the same.
fn report(generated: &Generated) -> Value {
    let Generated { sent, refused, forfeited, span, bursts, late, latest } = *generated;
    // All bursts but the last left between the first and the last departure.
    let achieved = (bursts > 1 && !span.is_zero())
        .then(|| sent as f64 * (bursts - 1) as f64 / bursts as f64 / span.as_secs_f64());
    json!({
        "sent": sent,
        "refused": refused,
        "forfeited": forfeited,
        "bursts": bursts,
        "achieved_pps": achieved,
        "span_ns": span.as_nanos() as u64,
        "late_ns": { "mean": late.as_nanos() as f64 / bursts.max(1) as f64, "max": latest.as_nanos() as u64 },
    })
}

/// Returns a datagram as a frame.
fn frame(arguments: &Arguments, own: Station, rate: Rate) -> Vec<u8> {
    let Arguments { address, to_mac, from, size, .. } = arguments;
    let length = |headers: u32| ((headers + size) as u16).to_be_bytes();
    let mut frame = [&to_mac[..], &own, &[0x08, 0x00], &[0x45, 0], &length(28)].concat();
    // Don't fragment, so the identification may be zero; the time to live is 64, and the protocol UDP.
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([from.ip().octets(), address.ip().octets()].concat());
    complete_ipv4_checksum(&mut frame[ETHERNET..]);
    frame.extend([from.port().to_be_bytes(), address.port().to_be_bytes(), length(8), [0, 0]].concat());
    frame.resize(HEADERS + *size as usize, 0);
    let interval = rate.interval();
    Datagram::Data { flow: 0, sequence: 0, scheduled: Timestamp::ZERO, interval, token: None }
        .write(&mut frame[HEADERS..]);
    frame
}

fn station(text: &str) -> Result<Station, String> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let station = bytes.and_then(|bytes| Station::try_from(bytes).ok());
    station
        .filter(|station| station[0] & 1 == 0 && *station != [0; 6])
        .ok_or_else(|| "the address of one station such as 02:00:00:00:00:01 is allowed".to_owned())
}

/// The headers of Ethernet, and with IPv4 and UDP.
const ETHERNET: usize = 14;
const HEADERS: usize = ETHERNET + 20 + 8;
/// The longest frame that the kernel runs programs over, less the headers.
const LONGEST_DATAGRAM: u32 = 3_300;
/// The discard port, at which no program answers.
const DISCARD: u16 = 9;
/// An address of the network that is set aside for this (RFC 2544).
const FOR_BENCHMARKS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_datagram_of_ours() {
        let arguments = Arguments {
            address: "10.1.2.3:9000".parse().unwrap(),
            iface: "g0".to_owned(),
            to_mac: [2; 6],
            from: SocketAddrV4::new(FOR_BENCHMARKS, DISCARD),
            rate: SendRate::PacketsPerSecond(200_000),
            quantum: 1,
            size: 100,
            catch_up: Duration::ZERO,
            duration: None,
            count: None,
            cpu: None,
        };
        let frame = frame(&arguments, [4; 6], Rate::per_second(200_000).unwrap());
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
    fn a_station_is_six_bytes_and_no_group() {
        assert_eq!(station("02:00:ab:CD:00:ff"), Ok([2, 0, 0xab, 0xcd, 0, 0xff]));
        for text in ["", "02", "02:00:ab:cd:00", "02:00:ab:cd:00:ff:00", "01:00:5e:00:00:01", "0:0:0:0:0:0"] {
            assert!(station(text).is_err(), "{text}");
        }
    }
}
