//! A frame that must not come back: whether the two interfaces are joined elsewhere, too.
//!
//! Frames that pass look the same as others all the time, so no memory of them tells a loop from a repetition.
//! A frame with a number that nobody else can know does.
//!
//! ```text
//!   │ group address │ own address │ 88b5 │ "softtimers-wan loop?" │ number │
//! ```

use softtimers::Timestamp;
use softtimers_core::Random;

/// The frame of one bridge, or of another forwarder between interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopProbe([u8; 60]);

impl LoopProbe {
    /// One that differs from those of other bridges, of this and of other machines.
    pub fn new(now: Timestamp) -> Self {
        let seed = now.as_nanos() ^ u64::from(std::process::id()).rotate_left(40);
        let mut random = Random::stream(seed, u64::from(std::process::id()));
        let mut frame = [0; 60];
        // To a group, locally administered, so that switches pass it on; from such a station, so that none is robbed.
        frame[..6].copy_from_slice(&[0x03, b's', b't', b'w', b'a', b'n']);
        frame[6..12].copy_from_slice(&random.next_u64().to_be_bytes()[..6]);
        frame[6] = (frame[6] & 0xfc) | 0x02;
        // The first ethertype that is free for experiments (IEEE 802, section 9.2.3).
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..14 + WORDS.len()].copy_from_slice(WORDS);
        frame[40..48].copy_from_slice(&random.next_u64().to_be_bytes());
        frame[48..56].copy_from_slice(&random.next_u64().to_be_bytes());
        LoopProbe(frame)
    }

    /// What is to be sent out of both.
    pub fn frame(&self) -> &[u8] {
        &self.0
    }

    /// Whether a frame is this one.
    pub fn is(&self, frame: &[u8]) -> bool {
        frame.starts_with(&self.0)
    }
}

const WORDS: &[u8] = b"softtimers-wan loop?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bridge_knows_its_own() {
        let one = LoopProbe::new(Timestamp::from_micros(1));
        let other = LoopProbe::new(Timestamp::from_micros(2));
        assert!(one.is(one.frame()) && !one.is(other.frame()) && !one.is(&one.frame()[..59]));
        assert_eq!(one.frame()[0] & 3, 3);
        assert_eq!(one.frame()[6] & 3, 2);
    }
}
