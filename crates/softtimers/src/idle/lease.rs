//! [`Lease`]: allows one thread of this process to spin.
//!
//! A spinning CPU does no other work, and only one has to check for due events: an idle CPU also halts while
//! another one polls (soft timers §5.1). So there is one word for the whole process, the time until which the
//! lease is taken:
//!
//! ```text
//!   word   0 ── take ──▶ now + 1 ms ── keep ──▶ now + 1 ms ── give up ──▶ 0
//!                            │                                  ▲
//!                            └── the time passes: any thread may take it
//! ```
//!
//! A holder that works, sleeps or is gone for longer than that loses it without any action. Taking and
//! renewing exchange exactly the word that was read for a later one, so a former holder sees from the word
//! that it lost the lease: times only grow, and no two holders write the same.

use std::sync::atomic::{AtomicU64, Ordering};

use softtimers_core::Timestamp;

/// The designated spinner of a process.
pub(super) static SPINNER: AtomicU64 = AtomicU64::new(0);

/// One thread's hold on the word, or none.
#[derive(Debug)]
pub(super) struct Lease {
    word: &'static AtomicU64,
    /// The value that this thread wrote last; zero if it does not hold the lease.
    mine: u64,
}

impl Lease {
    pub(super) const fn new(word: &'static AtomicU64) -> Self {
        Lease { word, mine: 0 }
    }

    /// Returns whether this thread holds the lease at `now`, after taking or renewing it if possible.
    ///
    /// # Cost
    /// One load; twice in a lease, one exchange.
    #[inline]
    pub(super) fn hold(&mut self, now: Timestamp) -> bool {
        let now = now.as_nanos();
        let word = self.word.load(Ordering::Relaxed);
        let holds = self.mine != 0 && word == self.mine;
        if holds && now < word.saturating_sub(LEASE / 2) {
            return true;
        }
        if !holds && word > now {
            self.mine = 0;
            return false;
        }
        // Two threads with equal clock readings must not write the same. Nothing else is published with the
        // word.
        let until = (now.saturating_add(LEASE)).max(word.saturating_add(1));
        let taken = self.word.compare_exchange(word, until, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.mine = if taken { until } else { 0 };
        taken
    }

    /// Releases the lease, if this thread holds it.
    pub(super) fn give_up(&mut self) {
        if self.mine != 0 {
            let _ = self.word.compare_exchange(self.mine, 0, Ordering::Relaxed, Ordering::Relaxed);
            self.mine = 0;
        }
    }
}

/// Releases the lease, also when a panic unwinds.
impl Drop for Lease {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Longer than the handlers of a program with tight deadlines, so that the spinner stays the same; short
/// enough that another one takes over when it does not come back.
const LEASE: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_core::Random;

    fn leases<const N: usize>() -> [Lease; N] {
        let word: &'static AtomicU64 = Box::leak(Box::default());
        std::array::from_fn(|_| Lease::new(word))
    }

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn one_holds_it_for_as_long_as_it_keeps_asking() {
        let [mut first, mut second] = leases();
        for micros in (10..100_000).step_by(700) {
            assert!(first.hold(at(micros)));
            assert!(!second.hold(at(micros + 1)));
        }
        first.give_up();
        assert!(second.hold(at(100_000)));
        assert!(!first.hold(at(100_001)));
    }

    #[test]
    fn who_is_away_for_too_long_loses_it_and_learns_so() {
        let [mut first, mut second] = leases();
        assert!(first.hold(at(10)));
        assert!(!second.hold(at(1_009)));
        assert!(second.hold(at(1_010)));
        assert!(!first.hold(at(1_011)));
        first.give_up();
        assert!(second.hold(at(1_012)), "what was lost cannot be given up");
    }

    #[test]
    fn it_outlives_no_panic() {
        let [mut first, mut second] = leases();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            assert!(first.hold(at(10)));
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        assert!(second.hold(at(11)));
    }

    /// Any number of threads in any order, in simulated time: never two at once.
    #[test]
    fn never_two_at_once() {
        let mut leases = leases::<5>();
        let (mut now, mut random) = (1u64, Random::stream(7, 0));
        let mut holders = [0u32; 5];
        for _ in 0..100_000 {
            now += random.below(900);
            let who = random.below(leases.len() as u64) as usize;
            if random.below(64) == 0 {
                leases[who].give_up();
            }
            if leases[who].hold(at(now)) {
                holders[who] += 1;
                let others = (0..leases.len()).filter(|&other| other != who);
                assert_eq!(others.filter(|&other| leases[other].hold(at(now))).count(), 0);
            }
        }
        assert!(holders.iter().all(|&held| held > 1_000), "{holders:?}: each has its turn");
    }
}
