//! Whether both interfaces are joined elsewhere, too: [`Loops`].
//!
//! A cable between two ports of one switch makes a loop in which frames for all go round, and multiply, until nothing
//! else passes. So a frame that nobody else can make ([`LoopProbe`]) goes out of both interfaces while anything is
//! forwarded. When it comes back, nothing is forwarded any more; and when it has not for a while, it is again.
//!
//! ```text
//!   forwards ──probe came back──▶ drops all, counts it, goes on probing ──none for 3 s──▶ forwards
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::interfaces::LoopProbe;

/// Watches for loops. A clone of it, for another poller between the same interfaces, knows of the same loop: whoever gets a
/// probe back, nobody forwards.
#[derive(Clone, Debug)]
pub struct Loops {
    probe: LoopProbe,
    known: Arc<Known>,
    /// Whether frames came since the last probe.
    carried: bool,
}

/// What all of them know.
#[derive(Debug, Default)]
struct Known {
    /// When a probe last came back, in nanoseconds; zero for never.
    heard: AtomicU64,
    /// Whether a user has been told.
    told: AtomicBool,
}

impl Loops {
    /// Between two probes.
    pub const PROBE: Duration = Duration::from_secs(1);
    /// Without a probe that comes back, until frames are forwarded again.
    pub const PATIENCE: Duration = Duration::from_secs(3);

    /// None found yet; the first probe is due.
    pub fn new(now: Timestamp) -> Self {
        Loops { probe: LoopProbe::new(now), known: Arc::default(), carried: true }
    }

    /// Whether a frame is to be dropped for a loop: a probe that came back, or anything as long as there is one.
    #[inline]
    pub fn is_in_one(&mut self, frame: &[u8], now: Timestamp) -> bool {
        self.carried = true;
        if self.probe.is(frame) {
            self.known.heard.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
        self.is_known()
    }

    /// Forgets a loop that is no more. Whether there is one now, if nobody has been told so yet.
    pub fn check(&mut self, now: Timestamp) -> Option<bool> {
        let heard = self.known.heard.load(Ordering::Relaxed);
        let since = now.checked_duration_since(Timestamp::from_nanos(heard));
        if since.is_some_and(|since| since >= Self::PATIENCE) {
            // Unless another one has just come back.
            let _ = self.known.heard.compare_exchange(heard, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        let is_known = self.is_known();
        let changed = self.known.told.swap(is_known, Ordering::Relaxed) != is_known;
        changed.then_some(is_known)
    }

    fn is_known(&self) -> bool {
        self.known.heard.load(Ordering::Relaxed) != 0
    }

    /// Whether a probe is wanted.
    pub fn wants_probe(&self) -> bool {
        self.carried || self.is_known()
    }

    /// What goes out of both interfaces, each [`PROBE`](Self::PROBE); nothing while nothing comes.
    pub fn probe(&mut self) -> Option<&[u8]> {
        let wanted = self.wants_probe();
        self.carried = false;
        wanted.then(|| self.probe.frame())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_comes_back_shuts_it_until_none_has_for_a_while() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let mut loops = Loops::new(at(1));
        assert!(loops.probe().is_some());
        assert_eq!(loops.probe(), None, "nothing came");
        assert!(!loops.is_in_one(&[2; 60], at(1)));
        let probe = loops.probe().unwrap().to_vec();
        assert!(!Loops::new(at(2)).is_in_one(&probe, at(2)), "somebody else's");
        assert_eq!(loops.check(at(2)), None);
        let mut other = loops.clone();
        assert!(loops.is_in_one(&probe, at(2)) && loops.is_in_one(&[2; 60], at(4)));
        assert!(other.is_in_one(&[2; 60], at(4)), "another poller's");
        assert_eq!((loops.check(at(4)), other.check(at(4))), (Some(true), None));
        assert!(loops.probe().is_some() && loops.probe().is_some());
        assert_eq!((other.check(at(5)), loops.check(at(5))), (Some(false), None));
        assert!(!loops.is_in_one(&[2; 60], at(5)));
    }
}
