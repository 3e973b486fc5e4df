//! RTP streams of other programs: their sequence numbers, so that loss and order are known of them, too (RFC 3550).
//!
//! A number has 16 bits and begins anywhere. It is extended to 64 bits by the nearest number to those before it:
//!
//! ```text
//!   header   VV P X CC │ M PT │ number │ time stamp │ SSRC     V = 2; PT 64 to 95 is RTCP on the same port (RFC 5761)
//!   numbers  65534 65535 0 1 ─▶ 131070 131071 131072 131073
//! ```

/// What counts of an RTP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rtp {
    /// The stream.
    pub(super) ssrc: u32,
    /// The number, as it was sent.
    pub(super) number: u16,
}

impl Rtp {
    /// Reads the header of an RTP packet; `None` of anything else.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let header: &[u8; 12] = payload.first_chunk()?;
        let is_rtcp = (64..96).contains(&(header[1] & 0x7f));
        (header[0] >> 6 == 2 && !is_rtcp).then_some(Rtp {
            ssrc: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            number: u16::from_be_bytes([header[2], header[3]]),
        })
    }

    /// Returns the number in 64 bits; `next` is one more than the greatest of the stream so far, 0 at its beginning.
    pub(super) fn extended(self, next: u64) -> u64 {
        let number = u64::from(self.number);
        if next == 0 {
            // Not the first turn, so that a number before the first one to come is known, too.
            return TURN + number;
        }
        let near = next - next % TURN + number;
        if near + TURN / 2 < next {
            near + TURN
        } else if near > next + TURN / 2 && near >= TURN {
            near - TURN
        } else {
            near
        }
    }
}

/// Numbers before they begin anew.
const TURN: u64 = 1 << 16;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet of 172 bytes with this number.
    pub(in super::super) fn packet(ssrc: u32, number: u16) -> Vec<u8> {
        let mut packet = vec![0x80, 0];
        packet.extend(number.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(ssrc.to_be_bytes());
        packet.resize(172, 7);
        packet
    }

    #[test]
    fn a_header_is_told_from_other_datagrams() {
        assert_eq!(Rtp::parse(&packet(9, 513)), Some(Rtp { ssrc: 9, number: 513 }));
        let mut rtcp = packet(9, 1);
        rtcp[1] = 200;
        assert_eq!(Rtp::parse(&rtcp), None);
        for other in [&b""[..], b"GET / HTTP/1.1", &[0x80; 11], &[0x40; 12]] {
            assert_eq!(Rtp::parse(other), None, "{other:?}");
        }
    }

    proptest! {
        /// Whatever is lost or overtaken within half a turn, the numbers are those of the sender.
        #[test]
        fn numbers_follow_each_other_over_every_turn(first: u16, steps in prop::collection::vec(-3_000_i64..30_000, 1..200)) {
            let mut next = 0;
            let mut sent = TURN + u64::from(first);
            for step in std::iter::once(0).chain(steps) {
                sent = sent.saturating_add_signed(step).max(TURN);
                let number = Rtp { ssrc: 0, number: sent as u16 }.extended(next);
                prop_assert_eq!(number, sent);
                next = next.max(number + 1);
                sent = next - 1;
            }
        }
    }
}
