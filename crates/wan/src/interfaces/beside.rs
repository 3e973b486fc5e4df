//! Which frames bypass a path between networks of this process: [`is_beside`].

/// Says whether a frame bypasses the path: a question for a neighbour, or its answer, as the kernel sends it, not as a
/// program may forge it.
pub(super) fn is_beside(frame: &[u8]) -> bool {
    let at = |at: usize| frame.get(at).copied().unwrap_or_default();
    match frame.get(12..).and_then(<[u8]>::first_chunk) {
        Some(&ARP) => frame.len() <= SHORTEST,
        // Neighbour discovery, with the hop limit that routers do not pass; reports of multicast groups behind one option.
        Some(&IPV6) if frame.len() <= LONGEST_QUESTION => match [at(20), at(21), at(54)] {
            [ICMPV6, 255, kind] => (133..=136).contains(&kind),
            [0, 1, ICMPV6] => matches!(at(62), 131 | 132 | 143),
            _ => false,
        },
        _ => false,
    }
}

/// The ethertype of ARP.
const ARP: [u8; 2] = [8, 6];
/// The ethertype of IPv6, and the protocol of its control messages.
const IPV6: [u8; 2] = [0x86, 0xdd];
const ICMPV6: u8 = 58;
/// Room for a report of a few groups; a question for a neighbour has 86 bytes.
const LONGEST_QUESTION: usize = 150;
/// The shortest frame on a wire, without its check sequence; ARP is shorter.
const SHORTEST: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_questions_for_neighbours_pass_beside_the_path() {
        let frame = |ethertype: [u8; 2], bytes: usize| {
            let mut frame = vec![0; bytes];
            frame[12..14].copy_from_slice(&ethertype);
            frame
        };
        assert!(is_beside(&frame(ARP, 42)) && is_beside(&frame(ARP, 60)));
        assert!(!is_beside(&frame(ARP, 61)) && !is_beside(&frame(ARP, 1_514)));
        assert!(!is_beside(&frame([8, 0], 42)) && !is_beside(&[8, 6]));
        let control = |next: u8, hops: u8, kind: u8, bytes: usize| {
            let mut frame = frame(IPV6, bytes);
            (frame[20], frame[21]) = (next, hops);
            (frame[54], frame[if next == 0 { 62 } else { 54 }]) = (ICMPV6, kind);
            frame
        };
        assert!(is_beside(&control(ICMPV6, 255, 135, 86)) && is_beside(&control(0, 1, 143, 110)));
        // An echo, a question from elsewhere, a long one, and another option's.
        for (next, hops, kind, bytes) in [
            (ICMPV6, 255, 128, 86),
            (ICMPV6, 64, 135, 86),
            (ICMPV6, 255, 135, 151),
            (0, 1, 128, 110),
            (6, 64, 0, 86),
        ] {
            assert!(!is_beside(&control(next, hops, kind, bytes)), "{next} {hops} {kind} {bytes}");
        }
    }
}
