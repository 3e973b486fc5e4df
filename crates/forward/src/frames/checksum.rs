//! Checksums that follow a change of what is under them: the Internet checksum (RFC 1071).
//!
//! Only that of IPv4's header does. What a router changes is under no transport's: so one that the sender has left to
//! an interface stays to be made, which is the devices' affair.

use etherparse::checksum::Sum16BitWords;

/// A checksum after one of the words under it has changed (RFC 1624, equation 3): right if it was right before, and
/// wrong if it was wrong, so that damage on the way here stays to be seen.
#[inline]
pub(crate) fn changed(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Says whether the checksum of an IPv4 header is that of its bytes.
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

        /// Against the sum made anew, for any header and any change.
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
