//! Blocks of pcapng, version 1.0, with times in nanoseconds.
//!
//! A block gives its length at both ends. So a file truncated between two blocks is complete, and one truncated inside
//! a block can be repaired by dropping the incomplete block: [`whole_blocks`] finds where that begins.
//!
//! ```text
//!   section │ interface │ … │ packet │ packet │ … │ statistics │ …
//!             name, snap length,   interface, time, kept and      of each interface: received, dropped
//!             filter, 10⁻⁹ s       whole length, direction
//! ```
//!
//! Blocks are appended to a reused buffer; the content of frames is copied, not interpreted. Numbers are little-endian.
//! The names of numbers are those of draft-ietf-opsawg-pcapng.

use std::time::Duration;

use softtimers_net::poller::FrameKind;

/// The description of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface<'a> {
    pub(crate) name: &'a str,
    /// The most bytes kept of a frame.
    pub(crate) snap_length: u32,
    /// The filter expression.
    pub(crate) filter: Option<&'a str>,
}

/// The properties of a frame besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp {
    /// When it was received, since 1970.
    pub(crate) time: Duration,
    /// The length of the frame on the wire.
    pub(crate) length: u32,
    /// The interface, by its number in the file.
    pub(crate) interface: u32,
    /// Whether it was for this machine, for others, or sent by it.
    pub(crate) kind: FrameKind,
}

/// The statistics of an interface at the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Statistics {
    /// The beginning, since 1970.
    pub(crate) begin: Duration,
    /// The end, since 1970.
    pub(crate) end: Duration,
    /// Packets that the interface received, as far as known.
    pub(crate) received: u64,
    /// Packets that the interface dropped.
    pub(crate) dropped: u64,
    /// Packets dropped after it: in the ring, or at a queue.
    pub(crate) dropped_behind: u64,
    /// Packets that were delivered.
    pub(crate) delivered: u64,
}

/// Begins a file: a section, and its Ethernet interfaces.
pub(crate) fn begin<'a>(buffer: &mut Vec<u8>, interfaces: impl IntoIterator<Item = Interface<'a>>) {
    block(buffer, SECTION, |buffer| {
        buffer.extend(BYTE_ORDER.to_le_bytes());
        // Version 1.0, and a section of any length.
        buffer.extend([1, 0, 0, 0]);
        buffer.extend(u64::MAX.to_le_bytes());
        option(buffer, SECTION_PROGRAM, concat!("softtimers ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(buffer, END, &[]);
    });
    interfaces.into_iter().for_each(|interface| describe(buffer, &interface));
}

fn describe(buffer: &mut Vec<u8>, interface: &Interface<'_>) {
    block(buffer, INTERFACE, |buffer| {
        buffer.extend(ETHERNET.to_le_bytes());
        buffer.extend([0, 0]);
        buffer.extend(interface.snap_length.to_le_bytes());
        option(buffer, INTERFACE_NAME, cut(interface.name).as_bytes());
        option(buffer, INTERFACE_RESOLUTION, &[NANOSECONDS]);
        if let Some(filter) = interface.filter {
            // Zero announces an expression.
            option(buffer, INTERFACE_FILTER, &[&[0], cut(filter).as_bytes()].concat());
        }
        option(buffer, END, &[]);
    });
}

/// Adds a frame of which `bytes` were kept.
///
/// # Cost
/// Three copies, since this is done for each frame.
pub(crate) fn packet(buffer: &mut Vec<u8>, stamp: &Stamp, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(LONGEST_KEPT)];
    let (length, kept) = (packet_size(bytes.len()) as u32, bytes.len() as u32);
    let [high, low] = halves(stamp.time);
    let head = [PACKET, length, stamp.interface, high, low, kept, stamp.length.max(kept)];
    // An option of four bytes, the end of options, and the length again.
    let tail = [u32::from(PACKET_FLAGS) | 4 << 16, flags(stamp.kind), u32::from(END), length];
    buffer.reserve(length as usize);
    buffer.extend_from_slice(little_endian(&mut [0; 28], &head));
    padded(buffer, bytes);
    buffer.extend_from_slice(little_endian(&mut [0; 16], &tail));
}

fn little_endian<'a>(bytes: &'a mut [u8], words: &[u32]) -> &'a [u8] {
    bytes.chunks_exact_mut(4).zip(words).for_each(|(four, word)| four.copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// Returns a frame's direction, and for whom it was.
fn flags(kind: FrameKind) -> u32 {
    let (direction, reception) = match kind {
        FrameKind::Unknown => (0, 0),
        FrameKind::Outgoing => (2, 0),
        FrameKind::Host => (1, 1),
        FrameKind::Multicast => (1, 2),
        FrameKind::Broadcast => (1, 3),
        FrameKind::Other => (1, 4),
    };
    direction | reception << 2
}

/// Adds the statistics of an interface at the end.
pub(crate) fn statistics(buffer: &mut Vec<u8>, interface: u32, statistics: &Statistics) {
    let Statistics { begin, end, received, dropped, dropped_behind, delivered } = *statistics;
    block(buffer, STATISTICS, |buffer| {
        buffer.extend(interface.to_le_bytes());
        time(buffer, end);
        for (code, moment) in [(STATISTICS_BEGIN, begin), (STATISTICS_END, end)] {
            buffer.extend(code.to_le_bytes());
            buffer.extend(8u16.to_le_bytes());
            time(buffer, moment);
        }
        for (code, count) in [
            (STATISTICS_RECEIVED, received),
            (STATISTICS_DROPPED, dropped),
            (STATISTICS_DROPPED_BEHIND, dropped_behind),
            (STATISTICS_DELIVERED, delivered),
        ] {
            option(buffer, code, &count.to_le_bytes());
        }
        option(buffer, END, &[]);
    });
}

/// Returns the bytes that [`packet`] adds for `bytes` of a frame.
pub(crate) fn packet_size(bytes: usize) -> usize {
    PACKET_OVERHEAD + bytes.min(LONGEST_KEPT).next_multiple_of(4)
}

/// Returns the end of the last complete block if only `written` bytes of blocks reached the file, and the number of
/// packets before it.
pub(crate) fn whole_blocks(blocks: &[u8], written: usize) -> (usize, usize) {
    let (mut end, mut packets) = (0, 0);
    while let Some((kind, length)) = head(&blocks[end..]) {
        let next = end + length;
        if next > written.min(blocks.len()) {
            break;
        }
        packets += usize::from(kind == PACKET);
        end = next;
    }
    (end, packets)
}

/// Returns the length of the first of these blocks; zero if there is none.
pub(crate) fn first_block(blocks: &[u8]) -> usize {
    head(blocks).map_or(0, |(_, length)| length)
}

/// Returns the kind and the length of the block that begins here.
fn head(block: &[u8]) -> Option<(u32, usize)> {
    let (kind, rest) = block.split_first_chunk()?;
    let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    Some((u32::from_le_bytes(*kind), length.max(OVERHEAD)))
}

fn block(buffer: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    buffer.extend(kind.to_le_bytes());
    buffer.extend([0; 4]);
    body(buffer);
    let length = ((buffer.len() - start + 4) as u32).to_le_bytes();
    buffer[start + 4..start + 8].copy_from_slice(&length);
    buffer.extend(length);
}

fn option(buffer: &mut Vec<u8>, code: u16, value: &[u8]) {
    buffer.extend(code.to_le_bytes());
    buffer.extend((value.len() as u16).to_le_bytes());
    padded(buffer, value);
}

fn padded(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.extend_from_slice(bytes);
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    buffer.extend(&[0; 3][..padding]);
}

fn time(buffer: &mut Vec<u8>, time: Duration) {
    halves(time).iter().for_each(|half| buffer.extend(half.to_le_bytes()));
}

/// Returns the time as two halves, the upper first. It lasts until 2554.
fn halves(time: Duration) -> [u32; 2] {
    let nanos = time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into());
    [(nanos >> 32) as u32, nanos as u32]
}

/// Cuts a text to the room of an option, at a character boundary.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(LONGEST_TEXT)).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const STATISTICS: u32 = 5;
/// A number that shows the byte order to readers.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;

const END: u16 = 0;
const SECTION_PROGRAM: u16 = 4;
const PACKET_FLAGS: u16 = 2;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_RESOLUTION: u16 = 9;
const INTERFACE_FILTER: u16 = 11;
const STATISTICS_BEGIN: u16 = 2;
const STATISTICS_END: u16 = 3;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;
const STATISTICS_DROPPED_BEHIND: u16 = 7;
const STATISTICS_DELIVERED: u16 = 8;
/// Decimal places of a second.
const NANOSECONDS: u8 = 9;

/// The length of a block without a body.
const OVERHEAD: usize = 12;
/// The same for a packet's block, with the fields around the packet's bytes.
const PACKET_OVERHEAD: usize = OVERHEAD + 20 + 12;
/// The most bytes kept of a frame: more than any has, and the limit of readers.
const LONGEST_KEPT: usize = 256 << 10;
const LONGEST_TEXT: usize = 32_000;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, Write as _};
    use std::path::Path;
    use std::process::{Command, Output};

    use super::*;
    use crate::properties;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_as_the_draft_has_it() {
        let mut buffer = Vec::new();
        let (time, kind) = (Duration::new(4, 294_967_297), FrameKind::Other);
        packet(&mut buffer, &Stamp { time, length: 60, interface: 3, kind }, &[1, 2, 3, 4, 5]);
        let nanos: u64 = 4_294_967_297;
        let mut expected = vec![6, 0, 0, 0, 52, 0, 0, 0, 3, 0, 0, 0];
        expected.extend(((nanos >> 32) as u32).to_le_bytes());
        expected.extend((nanos as u32).to_le_bytes());
        expected.extend([5, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
        expected.extend([2, 0, 4, 0, 0b1_0001, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0]);
        assert_eq!(buffer, expected);
        assert_eq!(buffer.len(), packet_size(5));
    }

    #[test]
    fn flags_tell_the_direction_and_whom_a_frame_was_for() {
        let kinds = [
            FrameKind::Unknown,
            FrameKind::Host,
            FrameKind::Multicast,
            FrameKind::Broadcast,
            FrameKind::Other,
            FrameKind::Outgoing,
        ];
        assert_eq!(kinds.map(flags), [0, 0b0_0101, 0b0_1001, 0b0_1101, 0b1_0001, 0b0_0010]);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let name = "ü".repeat(20_000);
        assert_eq!((cut(&name).len(), cut("eth0")), (32_000, "eth0"));
        assert_eq!(cut(&format!("x{name}")).len(), 31_999);
    }

    /// A frame's time in ns, its length, and its kept bytes.
    type Frame = (u64, u32, Vec<u8>);

    /// The packets that a program reads from a capture and rewrites in the older format.
    fn rewritten(program: &str, flags: &[&str], file: &Path) -> Option<Vec<Frame>> {
        let input = fs::File::open(file).unwrap();
        let Ok(Output { status, stdout, stderr }) = Command::new(program).args(flags).stdin(input).output()
        else {
            return None;
        };
        let words = String::from_utf8_lossy(&stderr);
        assert!(status.success() && !words.contains("cut short"), "{program}: {words}");
        let word = |at: usize| u32::from_le_bytes(stdout[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), 0xa1b2_3c4d, "with nanoseconds");
        let (mut at, mut packets) = (24, Vec::new());
        while at < stdout.len() {
            let [seconds, nanos, kept, length] = [0, 4, 8, 12].map(|field| word(at + field));
            let bytes = stdout[at + 16..][..kept as usize].to_vec();
            packets.push((u64::from(seconds) * 1_000_000_000 + u64::from(nanos), length, bytes));
            at += 16 + kept as usize;
        }
        Some(packets)
    }

    /// Checks the property test's files with the libraries of tcpdump and Wireshark, which share no code with its
    /// reader.
    #[test]
    fn other_readers_read_the_same() {
        let file = std::env::temp_dir().join(format!("softtimers-readers-{}", std::process::id()));
        let readers: [(&str, &[&str]); 2] = [
            ("tcpdump", &["-r", "-", "--time-stamp-precision=nano", "-w", "-"]),
            ("tshark", &["-r", "-", "-F", "nsecpcap", "-w", "-"]),
        ];
        let mut state = 1u64;
        for round in 0..4 {
            let script: Vec<u8> = (0..round * 9_000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let (bytes, expected) = properties::capture_of(&script);
            fs::write(&file, bytes).unwrap();
            let expected: Vec<_> =
                expected.into_iter().map(|(time, length, kept)| (time, length, kept.to_vec())).collect();
            for (program, flags) in readers {
                match rewritten(program, flags, &file) {
                    Some(found) => assert!(found == expected, "{program} reads something else"),
                    None if round == 0 => writeln!(
                        io::stderr(),
                        "skipped: {}: no {program}",
                        std::thread::current().name().unwrap_or("?")
                    )
                    .unwrap(),
                    None => {}
                }
            }
        }
        fs::remove_file(file).unwrap();
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(script in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            properties::captured(&script);
        }
    }
}
