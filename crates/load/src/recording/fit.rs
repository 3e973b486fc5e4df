//! Converts a recorded packet's length to that of a datagram.
//!
//! A capture counts whole frames. A datagram with that many bytes of payload would be longer on the wire than the
//! packet it stands for, and a full-sized one would be fragmented. So the headers are subtracted that the datagram gets
//! on its way:
//!
//! ```text
//!   recorded   │ Ethernet 14 │ IP, TCP, … payload           │   1514 bytes
//!   sent       │ Ethernet 14 │ IP 20 │ UDP 8 │ payload 1472 │   1514 bytes
//! ```
//!
//! A capture on the machine of a sender that uses segmentation (`UDP_SEGMENT`, TSO), or of a receiver that joins packets
//! (GRO), has one long frame for many packets on the wire. Nothing in it says how long those were: captures carry no
//! segment size. So it is an argument, and without it such frames are counted.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::wire::{MAX_SIZE, MIN_SIZE};

/// Packets that cannot be replayed as they were recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Changed {
    /// Too short for our header: lengthened.
    pub lengthened: u64,
    /// Too long for a datagram: cut.
    pub cut: u64,
    /// Split by the segment size.
    pub split: u64,
    /// Frames of a capture that are longer than Ethernet's 1,500 bytes and were not split: perhaps several packets that
    /// segmentation was still to cut, or had joined.
    pub oversized: u64,
    /// Earlier than a packet before them: sent right after it.
    pub out_of_order: u64,
    /// Whether the file ended in the middle of a record, which was left out.
    pub cut_off: bool,
}

/// The rules for converting recorded lengths to those of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fit {
    /// Header bytes in each recorded length; with `None`, those of the capture's link, of IP and of UDP, and none in
    /// lines of text.
    pub headers: Option<u32>,
    /// Bytes of the IP and UDP headers added to a datagram.
    pub added: u32,
    /// Cuts packets that are too long for a datagram, instead of refusing them.
    pub clamp: bool,
    /// Splits longer payloads into datagrams of this payload: at least [`LEAST_SEGMENT`](Fit::LEAST_SEGMENT).
    pub segment: Option<u16>,
    /// Keeps the whole packets of a capture that ends in the middle of one, instead of refusing it.
    pub keeps_whole: bool,
    /// The minimum length; shorter packets are lengthened to it.
    pub least: u16,
    /// Lets messages quote from the file. Not for a process that may read more than the readers of its messages.
    pub quotes: bool,
}

impl Fit {
    /// Creates the rules for datagrams to `destination`.
    pub fn to(destination: IpAddr) -> Self {
        Fit { added: if destination.to_canonical().is_ipv4() { 28 } else { 48 }, ..Fit::default() }
    }

    /// Keeps lengths as recorded, up to the maximum, for a recording that is not sent.
    pub const AS_RECORDED: Fit = Fit {
        headers: Some(0),
        added: 0,
        clamp: true,
        segment: None,
        keeps_whole: false,
        least: 0,
        quotes: false,
    };

    /// The least segment size, so that a record of a few bytes claims at most 128 datagrams.
    pub const LEAST_SEGMENT: u16 = 512;

    /// Part of the file's content, for a message; `…` where quoting is not allowed.
    pub(super) fn quoted(&self, content: impl fmt::Display) -> String {
        if self.quotes { content.to_string() } else { "…".to_owned() }
    }

    /// Returns the payload lengths that stand for a packet of `length` bytes on a link of this type: one, or several
    /// if it is split.
    pub(super) fn datagrams(
        &self,
        length: u64,
        link: Option<u16>,
        changed: &mut Changed,
    ) -> Result<impl Iterator<Item = u16> + use<>, String> {
        let whole = self.datagram(length, link, changed)?;
        let segment = self.segment.unwrap_or(u16::MAX).max(Fit::LEAST_SEGMENT);
        let is_oversized =
            link.and_then(link_header).is_some_and(|header| length > u64::from(header) + ETHERNET);
        let least = self.least;
        changed.split += u64::from(whole > segment);
        changed.oversized += u64::from(whole <= segment && is_oversized);
        let pieces = whole.div_ceil(segment).max(1);
        // The last one may be shorter.
        let piece = move |index: u16| (whole - index * segment).min(segment).max(least);
        Ok((0..pieces).map(piece))
    }

    /// Returns the payload length that stands for such a packet as a whole.
    fn datagram(&self, length: u64, link: Option<u16>, changed: &mut Changed) -> Result<u16, String> {
        let headers = match (self.headers, link) {
            (Some(headers), _) => headers,
            (None, None) => 0,
            (None, Some(link)) => {
                let before_ip = link_header(link).ok_or_else(|| {
                    format!(
                        "a packet of link type {}: how long its headers are is not known; say it with --headers",
                        self.quoted(link)
                    )
                })?;
                before_ip + self.added
            }
        };
        let payload = length.saturating_sub(u64::from(headers));
        let most = MAX_SIZE as u64;
        if payload > most && !self.clamp {
            return Err(format!(
                "a packet of {} bytes, {} without headers: a datagram carries at most {most}; --clamp sends as much of it",
                self.quoted(length),
                self.quoted(payload)
            ));
        }
        changed.lengthened += u64::from(payload < u64::from(self.least));
        changed.cut += u64::from(payload > most);
        let fitting = payload.clamp(self.least.into(), most);
        u16::try_from(fitting).map_err(|_| format!("a packet of {} bytes: too long", self.quoted(length)))
    }
}

/// The rules for an IPv4 destination, which refuse packets that are too long.
impl Default for Fit {
    fn default() -> Self {
        Fit {
            headers: None,
            added: 28,
            clamp: false,
            segment: None,
            keeps_whole: false,
            least: MIN_SIZE as u16,
            quotes: true,
        }
    }
}

/// The most bytes of a packet in a frame of Ethernet.
const ETHERNET: u64 = 1_500;

/// Returns the bytes before the IP packet, by the registered link types of captures.
fn link_header(link: u16) -> Option<u32> {
    match link {
        // IP without anything before it.
        12 | 14 | 101 | 228 | 229 => Some(0),
        // BSD loopback: the protocol's number.
        0 | 108 => Some(4),
        // Ethernet.
        1 => Some(14),
        // Linux "any", of both versions.
        113 => Some(16),
        276 => Some(20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(fit: Fit, length: u64, link: Option<u16>) -> (Result<u16, String>, Changed) {
        let mut changed = Changed::default();
        (fit.datagram(length, link, &mut changed), changed)
    }

    #[test]
    fn frames_keep_their_length_on_the_wire() {
        let to = |address: &str| Fit::to(address.parse().unwrap());
        for (fit, link, expected) in [
            (to("192.0.2.1"), Some(1), 1472),
            (to("::ffff:192.0.2.1"), Some(1), 1472),
            (to("2001:db8::1"), Some(1), 1452),
            (to("192.0.2.1"), Some(101), 1486),
            (to("192.0.2.1"), None, 1514),
            (Fit { headers: Some(42), ..Fit::default() }, None, 1472),
            (Fit { headers: Some(0), ..Fit::default() }, Some(105), 1514),
        ] {
            assert_eq!(fitted(fit, 1514, link).0, Ok(expected), "{fit:?} {link:?}");
        }
        let unknown = fitted(Fit::default(), 1514, Some(105)).0.unwrap_err();
        assert!(unknown.contains("link type 105") && unknown.contains("--headers"), "{unknown}");
    }

    #[test]
    fn long_frames_are_split_by_the_segment_size_or_counted() {
        let split = |segment, length, link| {
            let (fit, mut changed) = (Fit { segment, ..Fit::default() }, Changed::default());
            let pieces: Vec<u16> = fit.datagrams(length, link, &mut changed).unwrap().collect();
            (pieces, (changed.split, changed.oversized))
        };
        // Twenty segments of QUIC in one send, as the sender's machine captures it.
        assert_eq!(split(Some(1_200), 24_042, Some(1)), (vec![1_200; 20], (1, 0)));
        assert_eq!(split(None, 24_042, Some(1)), (vec![24_000], (0, 1)));
        // The last is shorter, but not shorter than a header of ours.
        assert_eq!(split(Some(1_200), 1_242 + 1_210, Some(1)), (vec![1_200, 1_200, 32], (1, 0)));
        assert_eq!(split(Some(1_200), 1_242, Some(1)), (vec![1_200], (0, 0)));
        assert_eq!((split(None, 1_514, Some(1)).1, split(None, 1_515, Some(1)).1), ((0, 0), (0, 1)));
        // Text counts datagrams, which may be as long as that.
        assert_eq!(split(None, 24_000, None), (vec![24_000], (0, 0)));
        let (most, _) = split(Some(1), 65_507, None);
        assert_eq!((most.len(), most[127]), (128, 65_507 - 127 * 512));
    }

    #[test]
    fn what_does_not_fit_is_counted_or_refused() {
        let (short, changed) = fitted(Fit::default(), 60, Some(1));
        assert_eq!((short, changed), (Ok(32), Changed { lengthened: 1, ..Changed::default() }));
        assert_eq!(fitted(Fit::default(), 0, Some(1)).0, Ok(32));
        assert_eq!(fitted(Fit::default(), 65_507, None), (Ok(65_507), Changed::default()));
        let refused = fitted(Fit::default(), 65_508, None).0.unwrap_err();
        assert!(refused.contains("at most 65507; --clamp"), "{refused}");
        let (cut, changed) = fitted(Fit { clamp: true, ..Fit::default() }, u64::MAX, Some(1));
        assert_eq!((cut, changed), (Ok(65_507), Changed { cut: 1, ..Changed::default() }));
    }
}
