//! Captures: pcap and pcapng, read by `pcap-parser`.
//!
//! The crate splits the file into records and knows both byte orders. This module adds what it lacks: it says where and
//! why a record is wrong, limits the buffer, and computes times. The crate (0.17) gets the byte order of a time's
//! offset wrong, and resolutions that are powers of two, so both are read from the bytes of the options. And it
//! subtracts a block's frame from the length that the block claims, without checking that it is that long: so blocks
//! that claim less are refused before it sees them.
//!
//! ```text
//!   pcap      header │ record │ record │ …            one link type, micro- or nanoseconds
//!   pcapng    section │ interface │ packet │ … │ section │ interface │ …
//!                       link type, resolution and offset of its packets' times
//! ```
//!
//! Where a capture says that its frames end in a check sequence, that is no part of a packet's length: the upper half of
//! pcap's link type, pcapng's `if_fcslen` and `epb_flags`, all read as Wireshark reads them.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, LegacyPcapReader, OptionCode,
    PcapBlockOwned, PcapError, PcapHeader, PcapNGReader,
};
use softtimers_core::Timestamp;

use super::collector::{Collector, HEAD, Packet, RecordingError, read_some};

/// Reads to the end, and returns its offset.
pub(super) fn pcap(input: impl Read, into: &mut Collector) -> Result<u64, RecordingError> {
    let (input, trouble) = Watched::new(input);
    let reader = LegacyPcapReader::new(HEAD, input).map_err(|_| {
        RecordingError::at(0, trouble.said().unwrap_or_else(|| "the file ends in its header".into()))
    })?;
    walk(reader, State::default(), &trouble, into)
}

/// Reads to the end, and returns its offset.
pub(super) fn pcapng(input: impl Read, into: &mut Collector) -> Result<u64, RecordingError> {
    let (input, trouble) = Watched::new(input);
    let reader = PcapNGReader::new(HEAD, input).map_err(|error| {
        let problem = match error {
            PcapError::Incomplete(_) => {
                "a section header that the file, or the 64 KiB that are read of it, does not hold"
            }
            _ => "a section header without a byte order, or with lengths that contradict each other",
        };
        RecordingError::at(0, trouble.said().unwrap_or_else(|| problem.into()))
    })?;
    walk(reader, State { sections: true, ..State::default() }, &trouble, into)
}

/// The next step, after a check of the buffer.
enum RecordStep {
    Take(usize, Option<Packet>),
    Refill,
    Grow,
    Wrong,
    End,
}

/// Takes record by record. Each step consumes, reads on, or ends.
fn walk(
    mut reader: impl PcapReaderIterator,
    mut state: State,
    trouble: &Trouble,
    into: &mut Collector,
) -> Result<u64, RecordingError> {
    let mut capacity = HEAD;
    loop {
        let at = reader.consumed() as u64;
        let wrong = |problem: String| RecordingError::at(at, problem);
        state.frame(reader.data()).has_room_for_a_frame().map_err(wrong)?;
        let step = match reader.next() {
            Ok((length, record)) => RecordStep::Take(length, state.packet(&record).map_err(wrong)?),
            Err(PcapError::Eof) => RecordStep::End,
            Err(PcapError::Incomplete(_)) => RecordStep::Refill,
            Err(PcapError::BufferTooSmall) => RecordStep::Grow,
            Err(_) => RecordStep::Wrong,
        };
        let record = state.frame(reader.data());
        match step {
            RecordStep::Take(length, packet) => {
                record.check(&reader.data()[..length]).map_err(wrong)?;
                packet.map_or(Ok(()), |packet| into.take(packet)).map_err(wrong)?;
                reader.consume(length);
            }
            RecordStep::End => return Ok(at),
            // More bytes do not mend a record that is already complete.
            _ if record.is_within(reader.data()) => return Err(wrong(record.contradiction())),
            RecordStep::Wrong if reader.data().is_empty() => return Ok(at),
            RecordStep::Wrong if reader.reader_exhausted() && into.fit.keeps_whole => {
                into.changed.cut_off = true;
                return Ok(at);
            }
            RecordStep::Wrong if reader.reader_exhausted() => {
                return Err(wrong(format!("{}; {KEEP}", record.cut_off(reader.data().len()))));
            }
            RecordStep::Wrong => return Err(wrong(record.contradiction())),
            // A record may claim any length: the buffer grows only once it is full.
            RecordStep::Grow if reader.data().len() == capacity => {
                if capacity >= LARGEST {
                    return Err(wrong(record.too_large()));
                }
                capacity *= 2;
                reader.grow(capacity);
            }
            RecordStep::Grow | RecordStep::Refill => refill(&mut reader, at, trouble)?,
        }
    }
}

fn refill(reader: &mut impl PcapReaderIterator, at: u64, trouble: &Trouble) -> Result<(), RecordingError> {
    reader
        .refill()
        .map_err(|_| RecordingError::at(at, trouble.said().unwrap_or_else(|| "cannot be read".into())))
}

/// The parts of earlier records that later ones depend on.
#[derive(Debug, Default)]
struct State {
    /// Whether it is pcapng.
    sections: bool,
    big_endian: bool,
    /// The section's interfaces; a pcap file has one.
    interfaces: Vec<Interface>,
}

/// The properties of an interface that are needed to read its packets.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    /// Bytes of a check sequence at the end of each frame.
    check_sequence: u32,
    /// Units of time in a second; at least one.
    resolution: u64,
    /// The offset of its times in seconds.
    offset: i64,
}

impl State {
    /// Returns the packet in a record, if there is one.
    fn packet(&mut self, record: &PcapBlockOwned<'_>) -> Result<Option<Packet>, String> {
        match record {
            PcapBlockOwned::LegacyHeader(header) => self.begin(header).map(|()| None),
            PcapBlockOwned::Legacy(packet) => self.legacy(packet).map(Some),
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                if section.major_version != 1 {
                    return Err(format!("a section of format {}; format 1 is read", section.major_version));
                }
                self.big_endian = section.big_endian();
                self.interfaces.clear();
                Ok(None)
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push(Interface::described(interface, self.big_endian)?);
                Ok(None)
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => self.enhanced(packet).map(Some),
            PcapBlockOwned::NG(Block::SimplePacket(_)) => {
                Err("a simple packet block, which has no time: it cannot be replayed".to_owned())
            }
            PcapBlockOwned::NG(Block::Unknown(block)) => {
                let kind = if self.big_endian { block.block_type.swap_bytes() } else { block.block_type };
                if kind == OBSOLETE_PACKET { self.obsolete(block.data).map(Some) } else { Ok(None) }
            }
            PcapBlockOwned::NG(_) => Ok(None),
        }
    }

    fn begin(&mut self, header: &PcapHeader) -> Result<(), String> {
        if header.version_major != 2 {
            let (major, minor) = (header.version_major, header.version_minor);
            return Err(format!("pcap of format {major}.{minor}; format 2.4 is read"));
        }
        let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
        let link = header.network.0 as u32;
        // In words of 16 bits, if the bit says that they are told.
        let check_sequence = if link & CHECK_SEQUENCE_IS_TOLD == 0 { 0 } else { (link >> 28) * 2 };
        self.interfaces = vec![Interface { link: link as u16, check_sequence, resolution, offset: 0 }];
        Ok(())
    }

    fn legacy(&self, packet: &LegacyPcapBlock<'_>) -> Result<Packet, String> {
        let interface = self.interfaces.first().ok_or("a packet before the header")?;
        if u64::from(packet.ts_usec) >= interface.resolution {
            return Err(format!(
                "a time of {} s and a fraction of {} / {} s: a fraction is less than a second",
                packet.ts_sec, packet.ts_usec, interface.resolution
            ));
        }
        let units = u64::from(packet.ts_sec) * interface.resolution + u64::from(packet.ts_usec);
        interface.packet(units, packet.caplen, (packet.origlen, interface.check_sequence))
    }

    fn enhanced(&self, packet: &EnhancedPacketBlock<'_>) -> Result<Packet, String> {
        let interface = self.interface(packet.if_id)?;
        let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
        let flags = packet.options.iter().find(|option| option.code == PACKET_FLAGS);
        let flags = flags.and_then(|option| number(option.value(), 0, self.big_endian)).unwrap_or(0);
        // In bytes; 0 if it is not known of this packet.
        let of_packet = Some(flags >> 5 & 0xf).filter(|&bytes| bytes > 0);
        let check_sequence = of_packet.unwrap_or(interface.check_sequence);
        interface.packet(units, packet.caplen, (packet.origlen, check_sequence))
    }

    /// Reads a packet in the form that enhanced packets replaced: an interface and a count of 16 bits each, then the same.
    fn obsolete(&self, block: &[u8]) -> Result<Packet, String> {
        let word =
            |at: usize| number(block, at, self.big_endian).ok_or("a packet block of less than 20 bytes");
        let first = word(0)?;
        let interface = self.interface(if self.big_endian { first >> 16 } else { first & 0xffff })?;
        let units = u64::from(word(4)?) << 32 | u64::from(word(8)?);
        interface.packet(units, word(12)?, (word(16)?, interface.check_sequence))
    }

    fn interface(&self, id: u32) -> Result<&Interface, String> {
        self.interfaces.get(id as usize).ok_or_else(|| {
            format!("a packet of interface {id}, where {} are described", self.interfaces.len())
        })
    }

    /// Describes the record that begins with `data`, with its length if that can be told.
    fn frame(&self, data: &[u8]) -> Record {
        if !self.sections {
            return Record { what: "packet", length: None, big_endian: self.big_endian };
        }
        let section = data.starts_with(&SECTION);
        let big_endian = match data.get(8..12) {
            Some(mark) if section => mark == BYTE_ORDER_BIG,
            _ => self.big_endian,
        };
        Record { what: "block", length: number(data, 4, big_endian), big_endian }
    }
}

impl Interface {
    fn described(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Result<Self, String> {
        let (mut resolution, mut offset, mut check_sequence) = (1_000_000, 0, 0);
        for option in block.options.iter().take_while(|option| option.code != OptionCode::EndOfOpt) {
            let bytes = option.as_bytes().map_err(|_| "an option that is cut off".to_owned())?;
            match option.code {
                OptionCode::IfTsresol => resolution = units_per_second(bytes)?,
                INTERFACE_CHECK_SEQUENCE => check_sequence = check_sequence_bytes(bytes)?,
                OptionCode::IfTsoffset => {
                    let bytes = bytes
                        .try_into()
                        .map_err(|_| format!("if_tsoffset of {} bytes; it has 8", bytes.len()))?;
                    offset = if big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                }
                _ => {}
            }
        }
        Ok(Interface { link: block.linktype.0 as u16, check_sequence, resolution, offset })
    }

    /// Returns a packet of this length, its check sequence of that length included.
    fn packet(&self, units: u64, kept: u32, (length, check_sequence): (u32, u32)) -> Result<Packet, String> {
        if kept > length {
            return Err(format!("{kept} bytes kept of a packet of {length}"));
        }
        let nanos = i128::from(units) * 1_000_000_000 / i128::from(self.resolution)
            + i128::from(self.offset) * 1_000_000_000;
        let nanos = u64::try_from(nanos).map_err(|_| "a time before 1970 or after 2554".to_owned())?;
        let length = u64::from(length.saturating_sub(check_sequence));
        Ok(Packet { time: Timestamp::from_nanos(nanos), length, link: Some(self.link) })
    }
}

/// `if_tsresol`: a power of ten, or of two with the upper bit set.
fn units_per_second(option: &[u8]) -> Result<u64, String> {
    let &[exponent] = option else {
        return Err(format!("if_tsresol of {} bytes; it has 1", option.len()));
    };
    let units = match exponent {
        0..=127 => 10u64.checked_pow(exponent.into()),
        _ => 1u64.checked_shl(u32::from(exponent & 0x7f)),
    };
    units.ok_or_else(|| format!("if_tsresol {exponent}: at the finest 10^-19 s or 2^-63 s"))
}

/// `if_fcslen`: bits by the format's text, bytes by its example and many writers; below 8 it can only be bytes.
fn check_sequence_bytes(option: &[u8]) -> Result<u32, String> {
    let &[length] = option else {
        return Err(format!("if_fcslen of {} bytes; it has 1", option.len()));
    };
    Ok(u32::from(if length < 8 { length } else { length / 8 }))
}

/// A record of a file, good or bad.
#[derive(Clone, Copy, Debug)]
struct Record {
    what: &'static str,
    /// The length that a block gives for itself.
    length: Option<u32>,
    big_endian: bool,
}

impl Record {
    /// Checks that a block ends with its length, which allows reading files backwards.
    fn check(&self, bytes: &[u8]) -> Result<(), String> {
        let again = || number(bytes, bytes.len().checked_sub(4)?, self.big_endian);
        match self.length {
            Some(length) if again() != Some(length) => Err(self.contradiction()),
            _ => Ok(()),
        }
    }

    /// Checks for room for a type and twice the length, which every block has and the parser subtracts.
    fn has_room_for_a_frame(&self) -> Result<(), String> {
        match self.length {
            Some(length @ ..FRAME) => Err(format!("a block of {length} bytes; the shortest has {FRAME}")),
            _ => Ok(()),
        }
    }

    fn is_within(&self, data: &[u8]) -> bool {
        self.length.is_some_and(|length| length as usize <= data.len())
    }

    fn contradiction(&self) -> String {
        match self.length {
            Some(length) => format!("a block of {length} bytes whose lengths contradict each other"),
            None => format!("no {} of this format", self.what),
        }
    }

    fn cut_off(&self, there: usize) -> String {
        match self.length {
            Some(length) => format!("the file ends after {there} of the {length} bytes of a block"),
            None => format!("the file ends in a {}, after {there} bytes of it", self.what),
        }
    }

    fn too_large(&self) -> String {
        format!("a {} of more than {LARGEST} bytes", self.what)
    }
}

fn number(data: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let bytes = data.get(at..)?.first_chunk().copied()?;
    Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

/// Keeps the read error that the parser drops.
struct Watched<R> {
    input: R,
    trouble: Trouble,
}

#[derive(Clone, Default)]
struct Trouble(Rc<RefCell<Option<io::Error>>>);

impl<R: Read> Watched<R> {
    fn new(input: R) -> (Self, Trouble) {
        let trouble = Trouble::default();
        (Watched { input, trouble: trouble.clone() }, trouble)
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_some(&mut self.input, buffer).map_err(|error| {
            let kind = error.kind();
            *self.trouble.0.borrow_mut() = Some(error);
            kind.into()
        })
    }
}

impl Trouble {
    fn said(&self) -> Option<String> {
        self.0.borrow().as_ref().map(|error| format!("cannot be read ({error})"))
    }
}

/// The first bytes of a section header, in either byte order.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER_BIG: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
/// The length of a block with nothing in it.
const FRAME: u32 = 12;
/// The bit of pcap's link type by which the length of check sequences is told.
const CHECK_SEQUENCE_IS_TOLD: u32 = 0x0400_0000;
/// `if_fcslen` of an interface.
const INTERFACE_CHECK_SEQUENCE: OptionCode = OptionCode(13);
/// `epb_flags` of an enhanced packet.
const PACKET_FLAGS: OptionCode = OptionCode(2);
/// The way to replay a file that ends in a record.
const KEEP: &str = "--damaged keep sends the packets before it";
/// The block that enhanced packets replaced in 2004.
const OBSOLETE_PACKET: u32 = 2;
/// Much longer than any packet; what a buffer may grow to for secrets, comments and the like.
const LARGEST: usize = 16 << 20;
