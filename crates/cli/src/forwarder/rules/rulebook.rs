//! Rules that change while several pollers use them: a [`Rulebook`], from which each gets a [`Follower`] and a filter.
//!
//! ```text
//!   whoever watches the file ─▶ revision ─┬─▶ follower ─▶ a poller's filter, between two rounds
//!                                         └─▶ follower ─▶ another's
//! ```
//!
//! The file is read and parsed in a thread of its own, so that no slow disk and no long file delays a packet: a poller
//! only reorders its counts for new rules. Until it does, and while the file is invalid, it uses the old rules, so a
//! change loses no packet and leaves none unchecked. The last one to take up the new rules reports it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::filter::Filter;
use super::revision::Revision;
use super::rule::{Purpose, Rules};
use crate::forwarder::notify::Notify;
use crate::forwarder::wake::{Waker, Woken, pair};

/// The rules in use, for all pollers.
#[derive(Debug)]
pub(crate) struct Rulebook {
    purpose: Purpose,
    notify: Notify,
    open: Mutex<Open>,
    /// Times that changed rules were invalid.
    refused: AtomicU64,
    /// Users of the rules besides the pollers.
    others: AtomicU32,
}

#[derive(Debug)]
struct Open {
    latest: Arc<Revision>,
    /// Wakers of the pollers to wake when other rules follow.
    followers: Vec<Waker>,
}

/// Tells one poller of new rules; readable when there are some.
#[derive(Debug)]
pub(crate) struct Follower {
    pollers: u32,
    notify: Notify,
    woken: Woken,
}

impl Rulebook {
    /// Starts with these rules, which [are fit for](Rules::check) the purpose.
    pub(crate) fn new(rules: Rules, purpose: Purpose, notify: Notify) -> Self {
        let open = Mutex::new(Open { latest: Revision::new(rules), followers: Vec::new() });
        Rulebook { purpose, notify, open, refused: AtomicU64::new(0), others: AtomicU32::new(0) }
    }

    /// Replaces the rules in use. A rule that is in both keeps its count and the state of its rate.
    pub(crate) fn change(&self, rules: Rules) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.latest = open.latest.change(rules);
        open.followers.iter().for_each(Waker::wake);
    }

    /// Counts and reports that changed rules were invalid, and why. The rules in use stay.
    pub(crate) fn refuse(&self, problem: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        (self.notify)(format_args!("{problem}; the old rules stay"));
    }

    /// Returns the rules in use for one more poller, and the follower that tells it of new ones.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn follow(&self) -> io::Result<(Follower, Filter)> {
        let (waker, woken) = pair()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.followers.push(waker);
        let revision = Arc::clone(&open.latest);
        drop(open);
        let pollers = self.purpose.pollers + self.others.load(Ordering::Relaxed);
        let follower = Follower { pollers, notify: self.notify, woken };
        follower.goes_by(&revision);
        Ok((follower, Filter::new(revision)))
    }

    /// As [`follow`](Self::follow), for a user besides the pollers; rules count as reloaded once it has taken them up,
    /// too.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn follow_too(&self) -> io::Result<(Follower, Filter)> {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.follow()
    }

    /// Returns how often changed rules were invalid.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Follower {
    /// Switches to the latest rules.
    ///
    /// # Cost
    /// O(rules) for each change, to reorder counts; a system call.
    pub(crate) fn take_up(&self, filter: &mut Filter) {
        self.woken.settle();
        while let Some(revision) = filter.advance() {
            self.goes_by(revision);
        }
    }

    /// Switches to the latest rules without reporting it: the caller has work to do before it calls
    /// [`goes_on`](Self::goes_on).
    pub(crate) fn begin(&self, filter: &mut Filter) {
        self.woken.settle();
        while filter.advance().is_some() {}
    }

    /// Reports that the rules have been taken up.
    pub(crate) fn goes_on(&self, filter: &Filter) {
        self.goes_by(filter.revision());
    }

    fn goes_by(&self, revision: &Revision) {
        if revision.follow() == self.pollers && revision.number() > 0 {
            (self.notify)(format_args!("rules reloaded: {} of them", revision.rules().len()));
        }
    }
}

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::forwarder::rules::{Tally, parse};

    fn rules(text: &str) -> Rules {
        parse(text.as_bytes()).unwrap()
    }

    fn is_told(follower: &Follower, within: Duration) -> bool {
        let within = Timespec::try_from(within).unwrap();
        poll(&mut [PollFd::new(follower, PollFlags::IN)], Some(&within)).unwrap() == 1
    }

    #[test]
    fn followers_are_told_and_take_up_all_that_has_changed() {
        let book = Rulebook::new(rules("accept"), Purpose { pollers: 2, frames: false }, |_| ());
        let (early, mut first) = book.follow().unwrap();
        assert!(!is_told(&early, Duration::ZERO));
        book.change(rules("port 1 accept\nreject"));
        let (late, mut second) = book.follow().unwrap();
        assert_eq!(second.tally().revision().number(), 1);
        assert!(!is_told(&late, Duration::ZERO));
        (0..3).for_each(|_| book.change(rules("reject")));
        for (follower, filter) in [(&early, &mut first), (&late, &mut second)] {
            assert!(is_told(follower, Duration::ZERO));
            follower.take_up(filter);
            assert_eq!(filter.tally().revision().number(), 4);
        }
        let mut sum: Tally = first.tally().clone();
        sum += second.tally();
        assert_eq!(sum.entries().map(|(entry, _)| entry.rule.to_string()).collect::<Vec<_>>(), ["reject"]);
    }
}
