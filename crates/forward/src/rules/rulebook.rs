//! Rules that change while several pollers go by them: [`Rulebook`], from which each has a [`Follower`] and a filter, and
//! [`RuleWatch`], which writes it.
//!
//! ```text
//!   file ─▶ thread: changed, kept still, right? ─▶ revision ─┬─▶ follower ─▶ a poller's filter, between two rounds
//!                                                            └─▶ follower ─▶ another's
//! ```
//!
//! A thread of its own looks at the file, so that no slow disk and no long file holds up a packet: all that a poller does
//! for new rules is to put its counts in their order. Until it comes to that, and when the file is wrong, it goes by those of
//! before: no packet is lost by a change, or finds no rules. Who is the last to take them up says so.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use super::rule_file::{Purpose, RuleFile};
use super::rules::{Filter, Revision, Rules};
use super::wake::{Waker, Woken, pair};
use crate::failure::{Failure, one_line};
use crate::output::say;
use crate::user::stay_caller;

/// The rules in use, for all pollers.
#[derive(Debug)]
pub struct Rulebook {
    pollers: u32,
    open: Mutex<Open>,
    /// Times that a changed file was wrong.
    refused: AtomicU64,
}

#[derive(Debug)]
struct Open {
    latest: Arc<Revision>,
    /// Who is to be woken up when others follow.
    followers: Vec<Waker>,
}

/// A rulebook that is as its file is, once it is [begun](RuleWatch::begin) and as long as this is there.
#[derive(Debug)]
pub struct RuleWatch {
    book: Arc<Rulebook>,
    /// Until it is begun.
    file: Option<RuleFile>,
}

/// Tells one poller of new rules; readable when there are some.
#[derive(Debug)]
pub struct Follower {
    pollers: u32,
    woken: Woken,
}

impl Rulebook {
    /// Of so many pollers, each of which [follows](Self::follow).
    fn new(rules: Rules, pollers: u32) -> Self {
        let open = Open { latest: Revision::new(rules), followers: Vec::new() };
        Rulebook { pollers, open: Mutex::new(open), refused: AtomicU64::new(0) }
    }

    /// For one poller more: the rules in use, and who tells it when others follow.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn follow(&self) -> io::Result<(Follower, Filter)> {
        let (waker, woken) = pair()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.followers.push(waker);
        let revision = Arc::clone(&open.latest);
        drop(open);
        let follower = Follower { pollers: self.pollers, woken };
        follower.goes_by(&revision);
        Ok((follower, Filter::new(revision)))
    }

    /// Times that a changed file was wrong, and the old rules stayed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn change(&self, rules: Rules) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.latest = open.latest.change(rules);
        open.followers.iter().for_each(Waker::wake);
    }

    fn look(&self, file: &mut RuleFile) {
        match file.look() {
            None => {}
            Some(Ok(rules)) => self.change(rules),
            Some(Err(problem)) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                say(format_args!("{}; the old rules stay", one_line(&problem)));
            }
        }
    }
}

impl RuleWatch {
    /// Reads the rules.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong`, or why it cannot be read.
    pub fn open(path: &Path, purpose: Purpose) -> Result<Self, String> {
        let (file, rules) = RuleFile::open(path, purpose)?;
        Ok(RuleWatch { book: Arc::new(Rulebook::new(rules, purpose.pollers)), file: Some(file) })
    }

    /// The rulebook.
    pub fn book(&self) -> &Arc<Rulebook> {
        &self.book
    }

    /// Looks at the file from now on.
    ///
    /// # Errors
    /// A check failure if the system has no thread left.
    pub fn begin(&mut self) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let book = Arc::downgrade(&self.book);
        let watch = move || {
            // Each look takes them on again if that fails, and says why a file cannot be read then.
            let _ = stay_caller();
            loop {
                thread::park_timeout(RuleFile::LOOK);
                let Some(book) = Weak::upgrade(&book) else { return };
                book.look(&mut file);
            }
        };
        let started = thread::Builder::new().name("rules".to_owned()).spawn(watch);
        started.map(drop).map_err(|error| Failure::broke_off("starting a thread", &error))
    }
}

impl Follower {
    /// Goes on with the rules that are there now.
    ///
    /// # Cost
    /// O(rules) for each change, to put counts in order; a system call.
    pub fn take_up(&self, filter: &mut Filter) {
        self.woken.settle();
        while let Some(revision) = filter.advance() {
            self.goes_by(revision);
        }
    }

    fn goes_by(&self, revision: &Revision) {
        if revision.follow() == self.pollers && revision.number() > 0 {
            say(format_args!("rules reloaded: {} of them", revision.rules().entries().len()));
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
    use crate::forward::rules::{Tally, parse};

    fn rules(text: &str) -> Rules {
        parse(text.as_bytes()).unwrap()
    }

    fn is_told(follower: &Follower, within: Duration) -> bool {
        let within = Timespec::try_from(within).unwrap();
        poll(&mut [PollFd::new(follower, PollFlags::IN)], Some(&within)).unwrap() == 1
    }

    #[test]
    fn followers_are_told_and_take_up_all_that_has_changed() {
        let book = Rulebook::new(rules("accept"), 2);
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
        sum.add(second.tally());
        assert_eq!(sum.entries().map(|(entry, _)| entry.rule.to_string()).collect::<Vec<_>>(), ["reject"]);
    }

    #[test]
    fn a_thread_looks_while_somebody_wants_it() {
        let path = std::env::temp_dir().join(format!("softtimers-{}-rulebook", std::process::id()));
        std::fs::write(&path, "accept").unwrap();
        let mut watch = RuleWatch::open(&path, Purpose { pollers: 1, frames: false }).unwrap();
        let (follower, mut filter) = watch.book().follow().unwrap();
        watch.begin().unwrap();
        watch.begin().unwrap();
        std::fs::write(&path, "port 1 accept\nreject").unwrap();
        assert!(is_told(&follower, Duration::from_secs(30)));
        follower.take_up(&mut filter);
        assert_eq!(filter.tally().entries().count(), 2);
        let book = Arc::downgrade(watch.book());
        drop(watch);
        std::fs::remove_file(&path).unwrap();
        // It has the book for as long as a look takes.
        let gone = || {
            book.upgrade().is_none() || {
                thread::park_timeout(Duration::from_millis(1));
                false
            }
        };
        assert!((0..30_000).any(|_| gone()));
    }
}
