//! Control messages: the kernel's information about a datagram, beside its bytes.
//!
//! ```text
//!   ┌ length ──┬ level ┬ type ┬ data … ┬ padding ┐┌ length …
//!   │ usize    │ i32   │ i32  │        │ to usize ││
//! ```
//!
//! They are read and written as bytes with checked bounds instead of through the `CMSG_` macros: nothing here
//! is `unsafe`, and no content from the kernel (or a test) can panic.

use std::time::Duration;

use softtimers_core::Timestamp;

/// Room for the control messages of one datagram.
///
/// A receive time takes 32 bytes, a drop counter or a segment's size 24, a packet socket's word 40, and no caller asks
/// for more than three; the three times of a transmission take 64; a send has a segment's size and a release
/// time, 24 each. The kernel truncates any others.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer(pub(crate) [u8; 96]);

impl ControlBuffer {
    pub(crate) const EMPTY: Self = Self([0; 96]);

    /// Writes the control messages of a send: the bytes of each segment if the kernel shall segment it, and
    /// the time before which the kernel shall hold it. Returns their length in bytes.
    pub(crate) fn write(&mut self, segment: Option<u16>, release: Option<Timestamp>) -> usize {
        let mut length = 0;
        if let Some(bytes) = segment {
            length += self.append(length, (libc::SOL_UDP, libc::UDP_SEGMENT), &bytes.to_ne_bytes());
        }
        if let Some(release) = release {
            let nanos = release.as_nanos().to_ne_bytes();
            length += self.append(length, (libc::SOL_SOCKET, libc::SCM_TXTIME), &nanos);
        }
        length
    }

    /// Writes one message at `at`; returns its end, including padding.
    fn append(&mut self, at: usize, (level, kind): (libc::c_int, libc::c_int), data: &[u8]) -> usize {
        let length = HEADER + data.len();
        let parts = [&length.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), data];
        let bytes = parts.into_iter().flatten();
        self.0.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        length.next_multiple_of(size_of::<usize>())
    }
}

/// The control messages of a datagram that this crate understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// When the kernel received it, since 1970 on the realtime clock.
    pub received: Option<Duration>,
    /// The number of datagrams that the socket had dropped by then; `None` while there were none.
    pub drops: Option<u32>,
    /// The size of the datagrams that the kernel joined to this one.
    pub segment: Option<u32>,
    /// When a packet of ours was handed to the device, since 1970 on the realtime clock.
    pub departed: Option<Duration>,
    /// The VLAN tag that the kernel took out of a frame: its ethertype and its value.
    pub vlan: Option<[u16; 2]>,
}

impl Control {
    /// Reads the part of a control buffer that the kernel wrote.
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut control = Self::default();
        while let Some((message, rest)) = Message::split(bytes) {
            match (message.level, message.kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => control.received = timespec(message.data),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    control.drops = message.data.first_chunk().copied().map(u32::from_ne_bytes);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    // The software's time, and two of the device's.
                    control.departed = message.data.get(..message.data.len() / 3).and_then(timespec);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    control.segment = message.data.first_chunk().copied().map(u32::from_ne_bytes);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => control.vlan = vlan(message.data),
                _ => {}
            }
            bytes = rest;
        }
        control
    }
}

struct Message<'a> {
    level: libc::c_int,
    kind: libc::c_int,
    data: &'a [u8],
}

impl<'a> Message<'a> {
    /// Splits off the first message of `bytes`; `None` at the end or if it is malformed.
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (level, rest) = rest.split_first_chunk()?;
        let (kind, _) = rest.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let data = bytes.get(HEADER..length)?;
        let next = length.checked_next_multiple_of(size_of::<usize>())?;
        let message = Self { level: i32::from_ne_bytes(*level), kind: i32::from_ne_bytes(*kind), data };
        Some((message, bytes.get(next..).unwrap_or_default()))
    }
}

/// A `struct timespec` of either width.
fn timespec(data: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = match data.len() {
        16 => {
            let (seconds, nanos) = data.split_first_chunk()?;
            (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*nanos.first_chunk()?))
        }
        8 => {
            let (seconds, nanos) = data.split_first_chunk()?;
            (i32::from_ne_bytes(*seconds).into(), i32::from_ne_bytes(*nanos.first_chunk()?).into())
        }
        _ => return None,
    };
    let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// The tag in a `struct tpacket_auxdata`: status, two lengths, two offsets, value, ethertype.
fn vlan(data: &[u8]) -> Option<[u16; 2]> {
    let half = |at: usize| data.get(at..)?.first_chunk().map(|half| u16::from_ne_bytes(*half));
    let status = u32::from_ne_bytes(*data.first_chunk()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let kind = half(18).filter(|_| status & libc::TP_STATUS_VLAN_TPID_VALID != 0);
    Some([kind.unwrap_or(libc::ETH_P_8021Q as u16), half(16)?])
}

const HEADER: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();

#[cfg(test)]
mod tests {
    use softtimers_core::Random;

    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    fn stamp(seconds: i64, nanos: i64) -> Vec<u8> {
        let data = [seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &data)
    }

    fn drops(count: u32) -> Vec<u8> {
        message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &count.to_ne_bytes())
    }

    #[test]
    fn messages_are_found_in_any_order_and_beside_others() {
        let other = message(libc::IPPROTO_IP, libc::IP_TTL, &64i32.to_ne_bytes());
        let both = Control { received: Some(Duration::new(5, 7)), drops: Some(9), ..Control::default() };
        for parts in [[stamp(5, 7), drops(9), other.clone()], [other, drops(9), stamp(5, 7)]] {
            assert_eq!(Control::parse(&parts.concat()), both);
        }
        assert_eq!(Control::parse(&[]), Control::default());
        assert_eq!(stamp(5, 7).len() + drops(9).len(), 56, "both fit the buffer");
    }

    #[test]
    fn joined_datagrams_tell_their_size() {
        let joined = message(libc::SOL_UDP, libc::UDP_GRO, &1_200i32.to_ne_bytes());
        assert_eq!(Control::parse(&joined).segment, Some(1_200));
        assert_eq!(Control::parse(&stamp(5, 7)).segment, None);
    }

    #[test]
    fn times_of_transmission_are_the_softwares() {
        let times: Vec<u8> = [5i64, 7, 0, 0, 9, 9].iter().flat_map(|part| part.to_ne_bytes()).collect();
        let stamped = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &times);
        assert_eq!(Control::parse(&stamped).departed, Some(Duration::new(5, 7)));
        assert!(stamped.len() <= ControlBuffer::EMPTY.0.len());
    }

    #[test]
    fn a_send_says_its_segments_and_its_time() {
        let segments = message(libc::SOL_UDP, libc::UDP_SEGMENT, &1_200u16.to_ne_bytes());
        let release = message(libc::SOL_SOCKET, libc::SCM_TXTIME, &7_000u64.to_ne_bytes());
        let mut buffer = ControlBuffer([0xff; 96]);
        let mut written = |segment, release| {
            let length = buffer.write(segment, release);
            buffer.0[..length].to_vec()
        };
        let at = Timestamp::from_micros(7);
        assert!(written(None, None).is_empty());
        assert_eq!(written(None, Some(at)), release);
        for (written, expected) in [
            (written(Some(1_200), None), segments.clone()),
            (written(Some(1_200), Some(at)), [segments, release].concat()),
        ] {
            // Padding keeps its previous content.
            assert_eq!(written.len(), expected.len());
            assert_eq!((&written[..HEADER + 2], &written[24..]), (&expected[..HEADER + 2], &expected[24..]));
        }
    }

    #[test]
    fn a_tag_that_was_taken_out_is_told() {
        let told = |status: u32| {
            let numbers = [status.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
            let tag = [0x0123u16.to_ne_bytes(), 0x88a8u16.to_ne_bytes()].concat();
            Control::parse(&message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &[numbers, tag].concat())).vlan
        };
        let (valid, kind) = (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_TPID_VALID);
        assert_eq!([told(0), told(valid)], [None, Some([0x8100, 0x0123])]);
        assert_eq!(told(valid | kind), Some([0x88a8, 0x0123]));
    }

    #[test]
    fn a_cut_message_ends_the_list() {
        let bytes = [drops(3), stamp(5, 7)].concat();
        for length in 0..bytes.len() {
            let control = Control::parse(&bytes[..length]);
            assert_eq!(control.received, None, "at {length}");
            assert_eq!(control.drops, (length >= HEADER + 4).then_some(3), "at {length}");
        }
    }

    #[test]
    fn impossible_times_are_none() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, i64::MAX)] {
            assert_eq!(Control::parse(&stamp(seconds, nanos)).received, None);
        }
    }

    #[test]
    fn no_bytes_panic() {
        let mut random = Random::stream(1, 0);
        for _ in 0..200_000 {
            let mut bytes = [0; 64];
            for byte in &mut bytes {
                // Small values make plausible lengths, levels and types.
                *byte = if random.below(2) == 0 { 0 } else { random.below(48) as u8 };
            }
            Control::parse(&bytes);
        }
        for length in [0, 1, HEADER - 1, HEADER, usize::MAX - 7, usize::MAX] {
            let mut bytes = [0xff; 64];
            bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Control::parse(&bytes), Control::default());
        }
    }
}
