//! Restricts an idle policy to what its thread may do; [`HeldBack`] says why it polls less.
//!
//! [`Idle`] decides between sleeping and polling by time alone. Two things that it cannot know forbid long
//! polling, whatever is configured:
//!
//! | this thread | why not | instead |
//! |---|---|---|
//! | is real-time (`SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`) | while it polls nothing else runs on its CPU, not even a program that would stop it | any policy parks, and polls at most a tenth |
//! | is not the only one that would spin | a second spinning thread has no benefit | it parks while another one spins |
//!
//! Both are checked again while the loop runs: the thread may be made real-time, and the spinner may end, or
//! have nothing more to wait for.

mod lease;

use std::fmt;
use std::time::Duration;

use softtimers_core::{Idle, Percent, PollBudget, Polling, SoftTimers, Timestamp, Wait};

use lease::{Lease, SPINNER};
use softtimers_linux::sched::is_real_time;

/// Why an idle policy polls less than configured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HeldBack {
    /// The thread is of a real-time class: it parks, and polls at most a tenth of the time.
    RealTime,
    /// The thread's class is unknown, because a sandbox refuses the query: it is treated as real-time.
    UnknownClass,
    /// Another thread of this process spins: this one parks meanwhile.
    AnotherSpins,
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeldBack::RealTime => "the thread is of a real-time class, which must not spin",
            HeldBack::UnknownClass => "the thread's scheduling class is unknown, and might forbid spinning",
            HeldBack::AnotherSpins => "another thread of this process spins already",
        })
    }
}

/// An [`Idle`] under these two rules, for the calling thread.
///
/// Loops of this crate have one; it is for loops of others, such as an executor's. Dropping it lets another thread
/// spin.
#[derive(Debug)]
pub struct Governor {
    asked: Idle,
    idle: Idle,
    lease: Lease,
    /// The restriction by the thread's class.
    class: Option<HeldBack>,
    check_at: Timestamp,
    held_back: Option<HeldBack>,
}

impl Governor {
    /// Makes a governor that runs this policy as far as allowed.
    pub fn new(asked: Idle) -> Self {
        Governor {
            asked,
            idle: asked,
            lease: Lease::new(&SPINNER),
            class: None,
            check_at: Timestamp::ZERO,
            held_back: None,
        }
    }

    /// Decides how to wait, as [`Idle::wait`] does.
    ///
    /// # Cost
    /// A system call every 100 ms; for a spinning policy, a load and an occasional atomic exchange.
    pub fn wait(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> Wait {
        self.wait_within(now, poll_at, Duration::ZERO)
    }

    /// Decides how to wait for a deadline that `slack` is part of, as [`Idle::wait_within`] does.
    ///
    /// # Cost
    /// As [`wait`](Self::wait).
    pub fn wait_within(&mut self, now: Timestamp, poll_at: Option<Timestamp>, slack: Duration) -> Wait {
        if now >= self.check_at {
            self.check_at = now + CHECK_EVERY;
            self.follow(now, held_back_by_class());
        }
        if self.idle.spins() {
            if poll_at.is_none() {
                self.lease.give_up();
            } else {
                let may_spin = self.lease.hold(now);
                self.idle.allow_spin(may_spin);
                if !may_spin {
                    self.held_back = Some(HeldBack::AnotherSpins);
                }
            }
        }
        self.idle.wait_within(now, poll_at, slack)
    }

    /// Decides how to wait for these timers.
    pub(crate) fn wait_for<E>(&mut self, now: Timestamp, timers: &SoftTimers<E>) -> Wait {
        self.wait_within(now, timers.poll_at(), timers.slack_left(self.idle.lead()))
    }

    /// Adapts to the thread's class.
    fn follow(&mut self, now: Timestamp, class: Option<HeldBack>) {
        if class == self.class {
            return;
        }
        self.class = class;
        self.idle.busy(now);
        self.lease.give_up();
        let policy = if class.is_some() {
            self.held_back = class;
            let share = self.asked.budget().share().min(REAL_TIME_SHARE);
            Idle::park().within(PollBudget::new(share))
        } else {
            self.asked
        };
        self.idle = policy.after(&self.idle);
    }

    /// Notes that the thread was busy, as [`Idle::busy`] does.
    #[inline]
    pub fn busy(&mut self, now: Timestamp) {
        self.idle.busy(now);
    }

    /// Notes a wake-up, as [`Idle::woke`] does.
    pub fn woke(&mut self, intended: Timestamp, now: Timestamp) {
        self.idle.woke(intended, now);
    }

    /// Returns how long before a deadline to wake a sleeper, if the deadline is set while it sleeps with
    /// nothing pending: the [lead](Idle::lead), or at once if it spins.
    pub fn lead(&self) -> Duration {
        if self.idle.spins() { Duration::MAX } else { self.idle.lead() }
    }

    /// Returns the time spent polling, as [`Idle::polling`] does.
    pub fn polling(&self) -> Polling {
        self.idle.polling()
    }

    /// Returns why it polled less than configured, the last time that it did.
    pub fn held_back(&self) -> Option<HeldBack> {
        self.held_back
    }
}

/// Returns the restriction by this thread's class. A thread of unknown class might be of one that must not
/// spin.
fn held_back_by_class() -> Option<HeldBack> {
    match is_real_time() {
        Ok(false) => None,
        Ok(true) => Some(HeldBack::RealTime),
        Err(_) => Some(HeldBack::UnknownClass),
    }
}

/// Soon enough after a user changes a thread's class; the cost of a system call per 100 ms is negligible.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Enough for the last microseconds of wake-ups; it leaves nine tenths of the CPU to the rest of the system.
const REAL_TIME_SHARE: Percent = match Percent::new(10) {
    Ok(share) => share,
    Err(_) => unreachable!(),
};

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Makes a governor of a thread that is not real-time, with its own lease word.
    fn governor(asked: Idle, word: &'static AtomicU64) -> Governor {
        Governor { check_at: Timestamp::MAX, lease: Lease::new(word), ..Governor::new(asked) }
    }

    fn word() -> &'static AtomicU64 {
        Box::leak(Box::default())
    }

    #[test]
    fn a_second_spinner_parks_until_the_first_has_nothing_pending() {
        let word = word();
        let mut first = governor(Idle::spin(), word);
        let mut second = governor(Idle::spin(), word);
        assert_eq!(first.wait(at(1), Some(at(500))), Wait::Poll);
        assert_eq!(second.wait(at(2), Some(at(500))), Wait::Until(at(500)));
        assert_eq!((first.held_back(), second.held_back()), (None, Some(HeldBack::AnotherSpins)));
        assert_eq!(first.wait(at(3), None), Wait::Forever);
        assert_eq!(second.wait(at(4), Some(at(500))), Wait::Poll);
    }

    #[test]
    fn a_spinner_that_is_gone_is_followed_by_another() {
        let word = word();
        let mut first = governor(Idle::spin(), word);
        let mut second = governor(Idle::spin(), word);
        assert_eq!(first.wait(at(1), Some(at(500))), Wait::Poll);
        drop(first);
        assert_eq!(second.wait(at(2), Some(at(500))), Wait::Poll);
    }

    /// Park and hybrid poll for less than a wake-up takes, whether or not another thread spins.
    #[test]
    fn only_spinning_needs_the_lease() {
        let word = word();
        let mut spinner = governor(Idle::spin(), word);
        let mut hybrid = governor(Idle::hybrid(), word);
        assert_eq!(spinner.wait(at(1), Some(at(500))), Wait::Poll);
        assert_eq!(hybrid.wait(at(490), Some(at(500))), Wait::Poll);
        assert_eq!(hybrid.held_back(), None);
    }

    #[test]
    fn a_real_time_thread_parks_within_a_tenth_and_forgets_nothing() {
        let mut governor = governor(Idle::spin().within(PollBudget::UNLIMITED), word());
        assert_eq!(governor.wait(at(0), Some(at(50_000))), Wait::Poll);
        governor.follow(at(100), Some(HeldBack::RealTime));
        assert_eq!(governor.held_back(), Some(HeldBack::RealTime));
        assert_eq!(governor.polling().time, Duration::from_micros(100));
        assert_eq!(governor.wait(at(100), Some(at(50_000))), Wait::Until(at(50_000)));
        assert_eq!(governor.idle.budget().share(), REAL_TIME_SHARE);
        governor.follow(at(60_000), None);
        assert_eq!(governor.wait(at(60_000), Some(at(70_000))), Wait::Poll);
        governor.busy(at(60_050));
        assert_eq!(governor.polling().time, Duration::from_micros(150));
    }

    /// Otherwise a thread that is switched between real-time and ordinary could poll all the time.
    #[test]
    fn a_change_of_class_gives_no_new_budget() {
        let half = PollBudget::HALF.over(Duration::from_millis(1));
        let mut governor = governor(Idle::spin().within(half), word());
        assert_eq!(governor.wait(at(0), Some(at(50_000))), Wait::Poll);
        governor.busy(at(2_000));
        for class in [Some(HeldBack::RealTime), None] {
            governor.follow(at(2_000), class);
            assert_eq!(governor.wait(at(2_000), Some(at(50_000))), Wait::Until(at(50_000)), "{class:?}");
        }
    }

    /// Uses the kernel's real classes; needs the privilege to make a thread real-time.
    #[test]
    fn a_thread_that_becomes_real_time_stops_spinning() {
        use softtimers_linux::RealTime;
        let tried = std::thread::spawn(move || {
            let mut governor = Governor { lease: Lease::new(word()), ..Governor::new(Idle::spin()) };
            assert_eq!(governor.wait(at(0), Some(at(500_000))), Wait::Poll);
            let _real_time = RealTime::hold(Duration::from_secs(1))?;
            let checked = at(0) + CHECK_EVERY;
            assert_eq!(governor.wait(checked, Some(at(500_000))), Wait::Until(at(500_000)));
            assert_eq!(governor.held_back(), Some(HeldBack::RealTime));
            std::io::Result::Ok(())
        });
        if let Err(error) = tried.join().unwrap() {
            crate::skipped::skipped(&format_args!("no SCHED_FIFO: {error}"));
        }
    }

    /// A flow faster than wake-ups, on a thread that nothing else could interrupt.
    #[test]
    fn a_real_time_thread_gives_its_processor_back() {
        let mut governor = governor(Idle::park(), word());
        governor.follow(at(0), Some(HeldBack::UnknownClass));
        assert_eq!(governor.held_back(), Some(HeldBack::UnknownClass));
        let (mut now, mut slept) = (at(0), Duration::ZERO);
        while now < at(100_000) {
            let due = now + Duration::from_micros(12);
            let wait = governor.wait(now, Some(due));
            now = due;
            if let Wait::Until(wake) = wait {
                now = wake + Duration::from_micros(20);
                governor.woke(wake, now);
                slept += Duration::from_micros(20);
            }
        }
        assert!(governor.polling().time < Duration::from_micros(11_100), "{:?}", governor.polling());
        assert!(slept > Duration::from_millis(50));
    }
}
