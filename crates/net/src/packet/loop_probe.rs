//! Detects a loop: whether the two interfaces are also connected elsewhere, so that a frame comes back.
//!
//! Repeated frames are common, so remembering them does not distinguish a loop from a repetition. A frame
//! with a secret number does.
//!
//! ```text
//!   │ group address │ own address │ 88b5 │ "softtimers-wan loop?" │ number of this interface and round │
//! ```
//!
//! Every station on an interface's network sees the frame, and could replay it to stop the forwarder. So each
//! interface has its own numbers, and only a frame that went out of one and came in at the other proves a
//! loop, which only a station on both networks can fake; each number is used once, and forgotten after a
//! moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use softtimers::Timestamp;

/// The frames of one bridge, or of another forwarder between interfaces.
#[derive(Clone, Debug)]
pub struct LoopProbe {
    /// The frame without its number.
    frame: [u8; LENGTH],
    secret: RandomState,
    /// The remembered rounds, the latest first.
    rounds: [Option<Round>; REMEMBERED],
    next: u64,
}

/// The probes that went out at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Round {
    at: Timestamp,
    /// The numbers of the two probes, by interface.
    numbers: [u64; 2],
}

/// The meaning of an own probe that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It went out of the other interface a moment ago: the two are also connected elsewhere.
    Across,
    /// Not conclusive: of this interface, or an old one.
    Repeated,
}

impl LoopProbe {
    /// The longest time that a probe may be under way.
    pub const VALID: Duration = Duration::from_secs(3);

    /// Makes a probe that differs from those of other bridges, on this and other machines.
    pub fn new() -> Self {
        let secret = RandomState::new();
        let mut frame = [0; LENGTH];
        // To a locally administered group address, so that switches forward it; from such a station address,
        // so that no real one is hijacked.
        frame[..6].copy_from_slice(&[0x03, b's', b't', b'w', b'a', b'n']);
        frame[6..12].copy_from_slice(&secret.hash_one("station").to_be_bytes()[..6]);
        frame[6] = (frame[6] & 0xfc) | 0x02;
        frame[12..14].copy_from_slice(&ETHERTYPE);
        frame[14..14 + WORDS.len()].copy_from_slice(WORDS);
        LoopProbe { frame, secret, rounds: [None; REMEMBERED], next: 0 }
    }

    /// Returns the probes to send now, one for each interface.
    pub fn send(&mut self, now: Timestamp) -> [[u8; LENGTH]; 2] {
        let numbers = [0u64, 1].map(|side| self.secret.hash_one((self.next, side)));
        self.next += 1;
        self.rounds.rotate_right(1);
        self.rounds[0] = Some(Round { at: now, numbers });
        numbers.map(|number| {
            let mut frame = self.frame;
            frame[NUMBER..].copy_from_slice(&number.to_be_bytes());
            frame
        })
    }

    /// Returns whether a frame may be a probe, of this or another bridge. Costs no more than a check of its head.
    #[inline]
    pub fn may_be(frame: &[u8]) -> bool {
        frame.get(12..14) == Some(&ETHERTYPE) && frame.get(14..14 + WORDS.len()) == Some(WORDS)
    }

    /// Returns the meaning of this frame at interface 0 or 1, if it is one of these probes.
    #[inline]
    pub fn hear(&self, frame: &[u8], side: usize, now: Timestamp) -> Option<Heard> {
        let number = frame.strip_prefix(&self.frame[..NUMBER])?.first_chunk()?;
        let number = u64::from_be_bytes(*number);
        let is_it = |round: &Round| {
            round.numbers.get(1 - side.min(1)) == Some(&number)
                && now.saturating_duration_since(round.at) <= Self::VALID
        };
        let across = self.rounds.iter().flatten().any(is_it);
        Some(if across { Heard::Across } else { Heard::Repeated })
    }
}

impl Default for LoopProbe {
    fn default() -> Self {
        LoopProbe::new()
    }
}

/// The first ethertype for experiments (IEEE 802, section 9.2.3).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const WORDS: &[u8] = b"softtimers-wan loop?";
/// The shortest that Ethernet carries.
const LENGTH: usize = 60;
/// The offset of the number, the last field of the frame.
const NUMBER: usize = LENGTH - size_of::<u64>();
/// The number of rounds sent while one is valid.
const REMEMBERED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(10_000_000);

    #[test]
    fn each_bridge_knows_its_own() {
        let (mut one, mut other) = (LoopProbe::new(), LoopProbe::new());
        let [a, b] = one.send(NOW);
        assert_eq!((one.hear(&a, 1, NOW), one.hear(&b, 0, NOW)), (Some(Heard::Across), Some(Heard::Across)));
        assert_eq!(one.hear(&other.send(NOW)[0], 1, NOW), None);
        assert_eq!(one.hear(&a[..59], 1, NOW), None);
        // Some switches pad.
        assert_eq!(one.hear(&[&a[..], &[0; 4]].concat(), 1, NOW), Some(Heard::Across));
        assert_eq!((a[0] & 3, a[6] & 3), (3, 2));
    }

    #[test]
    fn what_a_neighbour_sends_again_is_no_loop() {
        let mut probe = LoopProbe::new();
        let [a, b] = probe.send(NOW);
        assert_ne!(a, b);
        let repeated = Some(Heard::Repeated);
        assert_eq!((probe.hear(&a, 0, NOW), probe.hear(&b, 1, NOW)), (repeated, repeated));
        assert_eq!(probe.hear(&a, 1, NOW + LoopProbe::VALID), Some(Heard::Across));
        assert_eq!(probe.hear(&a, 1, NOW + LoopProbe::VALID + Duration::from_nanos(1)), repeated);
        assert_ne!(probe.send(NOW), [a, b]);
        (0..REMEMBERED).for_each(|_| _ = probe.send(NOW));
        assert_eq!(probe.hear(&a, 1, NOW), repeated);
        let mut guessed = a;
        guessed[NUMBER] ^= 1;
        assert_eq!(probe.hear(&guessed, 1, NOW), repeated);
    }
}
