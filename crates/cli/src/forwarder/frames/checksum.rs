//! Updating checksums after a change of the bytes they cover: the Internet checksum (RFC 1071).
//!
//! Only IPv4's header checksum needs it: a router changes nothing that a transport's checksum covers. A checksum that
//! the sender left to the interface is still computed by the output device.

use etherparse::checksum::Sum16BitWords;

/// Updates a checksum after one word under it has changed (RFC 1624, equation 3). A right checksum stays right, and a
/// wrong one wrong, so damage on the way here remains detectable.
#[inline]
pub(crate) fn changed(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Says whether the checksum of an IPv4 header is correct.
#[inline]
pub(crate) fn is_right(header: &[u8]) -> bool {
    Sum16BitWords::new().add_slice(header).ones_complement() == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares with the checksum computed anew, for any header and any change.
        #[test]
        fn a_change_keeps_a_checksum_right(mut header in prop::array::uniform20(any::<u8>()), ttl in 1u8..) {
            header[8] = ttl;
            header[10..12].fill(0);
            let sum = Sum16BitWords::new().add_slice(&header).ones_complement();
            header[10..12].copy_from_slice(&sum.to_ne_bytes());
            prop_assert!(is_right(&header));
            let old = u16::from_be_bytes([ttl, header[9]]);
            let new = u16::from_be_bytes([ttl - 1, header[9]]);
            let before = u16::from_be_bytes([header[10], header[11]]);
            header[8] -= 1;
            header[10..12].copy_from_slice(&changed(before, old, new).to_be_bytes());
            prop_assert!(is_right(&header));
        }
    }
}
