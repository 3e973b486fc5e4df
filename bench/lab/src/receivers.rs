//! Programs that `cargo lab rig` puts between two interfaces next to `softtimers forward`: receivers that answer one
//! question each, and print an object (`cargo lab receive`).
//!
//! | word | question |
//! |---|---|
//! | `stages A B` | which share of the packets from A leaves by B, if each packet costs a walk through a list of rules? |
//! | `compute A` | how much of its rate does a computation keep next to packets, polled and by wake-ups? |
//! | `delays A` | how long were the packets at A under way? |
//!
//! Each ends by itself: when no more packets come, or none come at all.

mod compute;
mod delays;
mod stages;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use serde_json::Value;
use softtimers::Timestamp;
use softtimers_load::mode::{Mode, PollingPlan};
use softtimers_load::wire::{SCHEDULED_AT, SEQUENCE_AT};
use softtimers_measure::processor::{Kept, Processor};
use softtimers_net::packet::Interface;
use softtimers_net::poller::{Device, FrameInfo, Packet, PacketConfig, PacketDevice, XdpDevice};

/// A question, and its arguments.
#[derive(Subcommand, Debug)]
pub enum Question {
    /// Counts packets that leave by the second interface, if each packet costs a walk through a list of rules
    Stages(stages::Arguments),
    /// Measures what a computation keeps of its rate, in turns of 50 ms
    Compute(compute::Arguments),
    /// How long packets were under way
    Delays(delays::Arguments),
}

/// The arguments that all of them have.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct How {
    #[arg(long, value_enum, default_value_t = Driver::Packet)]
    driver: Driver,
    /// The CPU to run on
    #[arg(long)]
    cpu: Option<usize>,
    /// The length of its list of rules
    #[arg(long, default_value_t = 0)]
    rules: usize,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Driver {
    Packet,
    Xdp,
}

/// Answers it, and prints the findings.
///
/// # Errors
/// The system's error.
pub fn run(question: &Question) -> io::Result<()> {
    let found = match question {
        Question::Stages(arguments) => stages::run(arguments),
        Question::Compute(arguments) => compute::run(arguments),
        Question::Delays(arguments) => delays::run(arguments),
    };
    println!("{}", found?);
    Ok(())
}

/// Work with devices of either driver.
trait With {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value>;
}

/// Opens the interfaces, prints on stderr that packets may come, and runs `with`.
fn open(how: &How, names: &[&str], with: impl With) -> io::Result<Value> {
    let interfaces = names.iter().map(|name| Interface::named(name)).collect::<io::Result<Vec<_>>>()?;
    let ready = || eprintln!("ready");
    match how.driver {
        Driver::Packet => {
            let config = PacketConfig { promiscuous: true, ..PacketConfig::default() };
            let devices = interfaces.iter().map(|interface| PacketDevice::open(interface, &config));
            let devices = devices.collect::<io::Result<Vec<_>>>()?;
            ready();
            with.with(devices)
        }
        Driver::Xdp => {
            let devices = XdpDevice::on_all(&interfaces, XdpDevice::ENTRIES)?;
            ready();
            with.with(devices)
        }
    }
}

impl How {
    /// Pins this thread, and those it starts, to the CPU.
    fn keep(&self) -> io::Result<Option<Kept>> {
        let processor = self.cpu.map(|number| Processor::new(number).map_err(io::Error::other));
        processor.transpose()?.map(Processor::keep).transpose()
    }
}

fn looking(mode: Mode, quota: u32) -> PollingPlan {
    PollingPlan::new(mode, quota, mode.aggregates().then_some(5), None).expect("modes with defaults")
}

/// Returns the number of a datagram of the generator, and its due time.
fn datagram(frame: &[u8]) -> Option<(u64, Timestamp)> {
    let payload = frame.get(HEADERS..).filter(|_| frame[12..14] == [0x08, 0x00])?;
    let word = |at: usize| Some(u64::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    Some((word(SEQUENCE_AT)?, Timestamp::from_nanos(word(SCHEDULED_AT)?)))
}

/// Returns the time of arrival, or if the device does not know it, the due time, which then includes the generator's
/// lateness.
fn came(packet: &Packet<'_, FrameInfo>) -> Option<Timestamp> {
    let (_, due) = datagram(packet.bytes)?;
    Some(packet.arrived.unwrap_or(due))
}

/// The headers of Ethernet, IPv4 and UDP, in bytes.
const HEADERS: usize = 42;
/// How long to wait for the first packet.
const PATIENCE: Duration = Duration::from_secs(10);
/// The silence after which no more packets are expected.
const SETTLED: Duration = Duration::from_millis(60);
