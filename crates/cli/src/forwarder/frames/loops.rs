//! Detecting whether both interfaces are also joined elsewhere: [`Loops`].
//!
//! A cable between two ports of one switch makes a loop in which broadcasts circulate and multiply until nothing else
//! passes. So while frames are forwarded, a frame that nothing else can send ([`LoopProbe`]) goes out of each
//! interface. When one comes back at the other interface, forwarding stops; when none has come back for a while, it
//! resumes.
//!
//! ```text
//!   forwards ──probe came back──▶ drops all, counts it, goes on probing ──none for 3 s──▶ forwards
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_net::packet::{Heard, LoopProbe};

/// Watches for loops. A clone, for another poller between the same interfaces, shares what is known: when one poller
/// receives a probe, all stop forwarding.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    known: Arc<Known>,
    /// Whether frames came since the last probe.
    carried: bool,
}

/// The state that all clones share.
#[derive(Debug, Default)]
struct Known {
    /// Locked only for probes, one a second.
    probes: Mutex<Probes>,
    /// When a probe last came back, in nanoseconds; zero for never.
    heard: AtomicU64,
    /// Whether the user has been told.
    told: AtomicBool,
}

#[derive(Debug, Default)]
struct Probes {
    probe: LoopProbe,
    /// When the last one was sent.
    sent: Option<Timestamp>,
}

impl Known {
    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loops {
    /// The time between two probes.
    pub(crate) const PROBE: Duration = Duration::from_secs(1);
    /// How long no probe must come back before frames are forwarded again.
    pub(crate) const QUIET_BEFORE_RESUMING: Duration = Duration::from_secs(3);

    /// Starts with no loop known; the first probe is due.
    pub(crate) fn new() -> Self {
        Loops { known: Arc::default(), carried: true }
    }

    /// Says whether a frame from interface 0 or 1 is to be dropped: probes always, anything else while there is a loop.
    #[inline]
    pub(crate) fn is_in_one(&mut self, frame: &[u8], side: usize, now: Timestamp) -> bool {
        self.carried = true;
        let probes = LoopProbe::may_be(frame).then(|| self.known.probes());
        let Some(heard) = probes.and_then(|probes| probes.probe.hear(frame, side, now)) else {
            return self.is_known();
        };
        if heard == Heard::Across {
            self.known.heard.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
        true
    }

    /// Ends a loop that no probe has confirmed for a while. Returns whether there is one now, if that has not been
    /// reported yet.
    pub(crate) fn check(&mut self, now: Timestamp) -> Option<bool> {
        let heard = self.known.heard.load(Ordering::Relaxed);
        let since = now.checked_duration_since(Timestamp::from_nanos(heard));
        if since.is_some_and(|since| since >= Self::QUIET_BEFORE_RESUMING) {
            // Unless another probe has just come back.
            let _ = self.known.heard.compare_exchange(heard, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        let is_known = self.is_known();
        let changed = self.known.told.swap(is_known, Ordering::Relaxed) != is_known;
        changed.then_some(is_known)
    }

    fn is_known(&self) -> bool {
        self.known.heard.load(Ordering::Relaxed) != 0
    }

    /// Says whether a probe is wanted.
    pub(crate) fn wants_probe(&self) -> bool {
        self.carried || self.is_known()
    }

    /// Returns the probes to send out of each interface, every [`PROBE`](Self::PROBE); `None` while no frames come, or
    /// when another poller has sent one.
    pub(crate) fn probe(&mut self, now: Timestamp) -> Option<[impl AsRef<[u8]> + use<>; 2]> {
        let wanted = self.wants_probe();
        self.carried = false;
        let mut probes = self.known.probes();
        let recent = |sent: Timestamp| now.saturating_duration_since(sent) < Self::PROBE / 2;
        if !wanted || probes.sent.is_some_and(recent) {
            return None;
        }
        probes.sent = Some(now);
        Some(probes.probe.send(now))
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
        assert!(loops.probe(at(2)).is_none(), "nothing came");
        assert!(!loops.is_in_one(&[2; 60], 0, at(2)));
        let [out_of_a, _] = loops.probe(at(3)).unwrap();
        assert!(!Loops::new().is_in_one(out_of_a.as_ref(), 1, at(3)), "somebody else's");
        // A neighbour's echo is dropped, and does not stop forwarding.
        assert!(loops.is_in_one(out_of_a.as_ref(), 0, at(3)) && !loops.is_in_one(&[2; 60], 0, at(3)));
        assert_eq!(loops.check(at(3)), None);
        let mut other = loops.clone();
        assert!(other.is_in_one(out_of_a.as_ref(), 1, at(3)), "sent by one poller, heard by another");
        assert!(loops.is_in_one(&[2; 60], 0, at(4)) && other.is_in_one(&[2; 60], 0, at(5)));
        assert_eq!((loops.check(at(5)), other.check(at(5))), (Some(true), None));
        assert!(loops.probe(at(5)).is_some() && other.probe(at(5)).is_none(), "one of them sends");
        assert!(loops.probe(at(6)).is_some());
        assert_eq!((other.check(at(6)), loops.check(at(6))), (Some(false), None));
        assert!(!loops.is_in_one(&[2; 60], 0, at(6)));
    }
}
