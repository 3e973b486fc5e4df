//! Whether both interfaces are joined elsewhere, too: [`Loops`].
//!
//! A cable between two ports of one switch makes a loop in which frames for all go round, and multiply, until nothing
//! else passes. So a frame that nobody else can make ([`LoopProbe`]) goes out of each interface while anything is
//! forwarded. When one comes back at the other interface, nothing is forwarded any more; and when none has for a while, it
//! is again.
//!
//! ```text
//!   forwards ──probe came back──▶ drops all, counts it, goes on probing ──none for 3 s──▶ forwards
//! ```

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::interfaces::{Heard, LoopProbe};

/// Watches for loops.
#[derive(Clone, Debug)]
pub struct Loops {
    probe: LoopProbe,
    /// When it last came back.
    heard: Option<Timestamp>,
    /// Whether frames came since the last probe.
    carried: bool,
}

impl Loops {
    /// Between two probes.
    pub const PROBE: Duration = Duration::from_secs(1);
    /// Without a probe that comes back, until frames are forwarded again.
    pub const PATIENCE: Duration = Duration::from_secs(3);

    /// None found yet; the first probe is due.
    pub fn new() -> Self {
        Loops { probe: LoopProbe::new(), heard: None, carried: true }
    }

    /// Whether a frame from interface 0 or 1 is to be dropped for a loop: a probe, or anything as long as there is one.
    #[inline]
    pub fn is_in_one(&mut self, frame: &[u8], side: usize, now: Timestamp) -> bool {
        self.carried = true;
        let probe = self.probe.hear(frame, side, now);
        if probe == Some(Heard::Across) {
            self.heard = Some(now);
        }
        probe.is_some() || self.heard.is_some()
    }

    /// Forgets a loop that is no more. Whether there still is one.
    pub fn check(&mut self, now: Timestamp) -> bool {
        let is_over =
            |heard: Timestamp| now.checked_duration_since(heard).is_some_and(|since| since >= Self::PATIENCE);
        self.heard = self.heard.filter(|&heard| !is_over(heard));
        self.heard.is_some()
    }

    /// Whether a probe is wanted.
    pub fn wants_probe(&self) -> bool {
        self.carried || self.heard.is_some()
    }

    /// What goes out of each interface, every [`PROBE`](Self::PROBE); nothing while nothing comes.
    pub fn probe(&mut self, now: Timestamp) -> Option<[impl AsRef<[u8]> + use<>; 2]> {
        let wanted = self.wants_probe();
        self.carried = false;
        wanted.then(|| self.probe.send(now))
    }
}

impl Default for Loops {
    fn default() -> Self {
        Loops::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_comes_back_shuts_it_until_none_has_for_a_while() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let mut loops = Loops::new();
        assert!(loops.probe(at(1)).is_some());
        assert!(loops.probe(at(1)).is_none(), "nothing came");
        assert!(!loops.is_in_one(&[2; 60], 0, at(1)));
        let [out_of_a, _] = loops.probe(at(1)).unwrap();
        assert!(!Loops::new().is_in_one(out_of_a.as_ref(), 1, at(2)), "somebody else's");
        // A neighbour's echo goes no further, and shuts nothing.
        assert!(loops.is_in_one(out_of_a.as_ref(), 0, at(2)) && !loops.is_in_one(&[2; 60], 0, at(2)));
        assert!(!loops.check(at(2)));
        assert!(loops.is_in_one(out_of_a.as_ref(), 1, at(2)) && loops.is_in_one(&[2; 60], 0, at(4)));
        assert!(loops.check(at(4)) && loops.probe(at(4)).is_some() && loops.probe(at(4)).is_some());
        assert!(!loops.check(at(5)) && !loops.is_in_one(&[2; 60], 0, at(5)));
    }
}
