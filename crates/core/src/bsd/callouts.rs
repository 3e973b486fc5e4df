//! [`Callouts`]: calls at a later tick, set and cancelled by function and argument, or by handle.

use crate::slots::Slots;
use crate::{KeyedTimers, Seal, Step, Timestamp};
use core::time::Duration;

use super::Handle;
use super::callhash::{CallHash, Callout, Links};

/// The callouts of a kernel, or of a program organised like one: a clock that ticks, and work deferred from
/// its interrupt.
///
/// ```
/// use softtimers_core::bsd::Callouts;
///
/// let [retransmit, probe] = [1, 2];
/// let mut callouts = Callouts::new(1);
/// callouts.timeout([retransmit, 17], 3);
/// let handle = callouts.setcallout([probe, 17], 2);
///
/// assert!(!callouts.tick()); // nothing due: no softclock
/// assert!(callouts.tick());
/// assert_eq!(callouts.softclock(), Some([probe, 17]));
/// assert_eq!(callouts.softclock(), None);
///
/// assert_eq!(callouts.unsetcallout(handle), None); // it has been called
/// assert_eq!(callouts.untimeout(&[retransmit, 17]), Some([retransmit, 17]));
/// assert_eq!(callouts.untimeout(&[retransmit, 17]), None);
/// ```
///
/// A callout is known by two words, in C the addresses of a function and of its argument: callouts with the same words are
/// the same to [`untimeout`](Self::untimeout). A type of your own says which they are by `From`:
///
/// ```
/// use softtimers_core::bsd::Callouts;
///
/// #[derive(Clone, Copy)]
/// struct Job {
///     run: fn(&mut Vec<usize>, usize),
///     connection: usize,
/// }
///
/// impl From<Job> for [usize; 2] {
///     fn from(job: Job) -> Self {
///         [job.run as usize, job.connection]
///     }
/// }
///
/// let mut callouts = Callouts::new(1);
/// callouts.timeout(Job { run: |closed, connection| closed.push(connection), connection: 17 }, 1);
/// let mut closed = Vec::new();
/// callouts.hardclock(|_, job| (job.run)(&mut closed, job.connection));
/// assert_eq!(closed, [17]);
/// ```
///
/// # The two halves
///
/// [`tick`](Self::tick) is the paper's `hardclock`: it counts, and checks whether the new tick's slot is
/// empty. If it is not, or if work is left from before, [`softclock`](Self::softclock) is wanted, which hands
/// out one due call after another, in the order of their ticks, and for equal ticks in the order they were
/// set. [`hardclock`](Self::hardclock) does both when nothing is held.
#[derive(Debug)]
pub struct Callouts<C> {
    /// The tick of each slot's callout, which is one slot of the wheel wide.
    wheel: KeyedTimers,
    slots: Slots<Callout<C>>,
    hash: CallHash,
    seal: Seal,
    ticks: u64,
    softticks: u64,
    /// The due callout that `tick` took out of the wheel; `softclock` hands it out next.
    found: Option<(u32, u64)>,
    held: u32,
    stats: CalloutStats,
}

/// Counters of [`Callouts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CalloutStats {
    /// Number of ticks counted.
    pub ticks: u64,
    /// Number of ticks after which softclock was wanted.
    pub raised: u64,
    /// Ticks among those at which [`Callouts::hardclock`] ran it at once.
    pub inline: u64,
    /// Number of calls handed out.
    pub called: u64,
    /// The greatest number of ticks by which softclock was behind.
    pub most_lag: u64,
    /// Callouts of another function or argument that [`Callouts::untimeout`] passed by: the *h* of the paper's Table II.
    pub passed: u64,
    /// Steps in the wheel that found nothing due and cascaded at most four chunks of 13 callouts.
    pub moves: u64,
}

impl<C: Copy + Into<[usize; 2]>> Callouts<C> {
    /// Creates a set without callouts. `owner` tells this set's handles from those of others: a number that no other
    /// set has.
    pub fn new(owner: u64) -> Self {
        Callouts {
            wheel: KeyedTimers::new(Duration::from_nanos(1 << TICK_SHIFT)),
            slots: Slots::new(core::num::NonZeroU32::MIN),
            hash: CallHash::new(),
            seal: Seal::new(owner),
            ticks: 0,
            softticks: 0,
            found: None,
            held: 0,
            stats: CalloutStats::default(),
        }
    }

    /// Schedules `call` after `ticks` ticks; zero is taken as one. Scheduling it again before it is called
    /// gives a second one.
    ///
    /// # Cost
    /// O(1), on average over the doublings of the hash table. Allocates only when the number of callouts
    /// reaches a new maximum.
    ///
    /// # Panics
    /// If 2²⁸ − 1 callouts are set.
    pub fn timeout(&mut self, call: C, ticks: u64) {
        let words = call.into();
        let slot = self.set(call, ticks).1;
        self.hash.insert(words, slot, &mut self.slots);
    }

    /// Cancels the callout with this function and argument that was set last, and returns it; `None` if there
    /// is none. Ignores those set with [`setcallout`](Self::setcallout).
    ///
    /// # Cost
    /// Searches one chain of the hash table, on a hit or a miss. Never allocates.
    pub fn untimeout(&mut self, call: &C) -> Option<C> {
        let words = (*call).into();
        let (slot, passed) = self.hash.find(words, &self.slots, |&other| other.into() == words);
        self.stats.passed += passed;
        self.unset(slot?)
    }

    /// As [`timeout`](Self::timeout), to be cancelled by the handle that it returns. It is not in the hash table.
    ///
    /// # Cost
    /// O(1). Allocates only when the number of callouts reaches a new maximum.
    ///
    /// # Panics
    /// If 2²⁸ − 1 callouts are set.
    pub fn setcallout(&mut self, call: C, ticks: u64) -> Handle {
        let id = self.set(call, ticks).0;
        Handle(self.seal.close(id.to_bits()))
    }

    /// Cancels the callout of a handle and returns it; `None` if it was called or cancelled before, or the handle is not
    /// of this set.
    ///
    /// # Cost
    /// O(1). Never allocates.
    pub fn unsetcallout(&mut self, handle: Handle) -> Option<C> {
        let id = self.slots.id_of(self.seal.open(handle.0))?;
        let slot = self.slots.find(id)?;
        // A callout set by function and argument has a handle too, but it was never returned.
        if self.slots.at(slot)?.links.is_linked() { None } else { self.unset(slot) }
    }

    /// Counts a tick of the clock. Returns whether [`softclock`](Self::softclock) is wanted: because
    /// something is due now, or because it has not yet worked off an earlier tick.
    ///
    /// # Cost
    /// O(1): one compare while nothing is near.
    pub fn tick(&mut self) -> bool {
        self.ticks += 1;
        self.stats.ticks += 1;
        let behind = self.found.is_some() || self.softticks + 1 != self.ticks;
        let wanted = behind || self.look();
        if wanted {
            self.stats.raised += 1;
        } else {
            self.softticks = self.ticks;
        }
        self.stats.most_lag = self.stats.most_lag.max(self.lag());
        wanted
    }

    /// Returns the next due call; `None` when everything up to the present tick has been handed out. The call
    /// is no longer set then, so it may set itself again, and set and cancel others.
    ///
    /// # Cost
    /// O(1) for each call, however much time has passed; before it, a [`step`](Self::step) for every four
    /// chunks of 13 callouts that cascade.
    pub fn softclock(&mut self) -> Option<C> {
        loop {
            match self.step() {
                Step::Fired(call) => return Some(call),
                Step::MoreWork => {}
                Step::Done => return None,
            }
        }
    }

    /// As [`softclock`](Self::softclock), in pieces: a caller that holds a lock can release it between two
    /// steps, as the paper's softclock does after a hundred slots. Other callers may then set, cancel and
    /// count ticks.
    ///
    /// # Cost
    /// At most a few microseconds, however many callouts are set. Never allocates.
    pub fn step(&mut self) -> Step<C> {
        if self.found.is_none() {
            match self.look_once() {
                Step::Fired(_) => {}
                Step::MoreWork => return Step::MoreWork,
                Step::Done => {
                    self.softticks = self.ticks;
                    return Step::Done;
                }
            }
        }
        let Some((slot, due)) = self.found.take() else { return Step::Done };
        self.softticks = self.softticks.max(due);
        self.stats.called += 1;
        self.take(slot).map_or(Step::MoreWork, Step::Fired)
    }

    /// Counts a tick, and if softclock is wanted and nothing is [held](Self::hold), runs all of its calls at
    /// once: the paper's figure 4. Returns whether softclock is still wanted.
    ///
    /// A call may itself count a tick; the softclock that is already running then does its work.
    pub fn hardclock(&mut self, run: impl FnMut(&mut Self, C)) -> bool {
        if !self.tick() {
            return false;
        }
        if self.held > 0 {
            return true;
        }
        self.stats.inline += 1;
        self.run(run);
        false
    }

    /// Calls everything that is due. Ticks are [held](Self::hold) meanwhile, and released if a call panics;
    /// no other call is lost then.
    pub fn run(&mut self, mut run: impl FnMut(&mut Self, C)) {
        let held = Held::take(self);
        while let Some(call) = held.0.softclock() {
            run(held.0, call);
        }
    }

    /// Makes ticks only count until [`release`](Self::release): the caller is in a critical section (the
    /// paper's interrupt priority above the base). May be nested.
    pub fn hold(&mut self) {
        self.held += 1;
    }

    /// Ends a [`hold`](Self::hold). Returns whether to run softclock now: it is wanted and nothing else is
    /// held.
    pub fn release(&mut self) -> bool {
        self.held = self.held.saturating_sub(1);
        self.held == 0 && self.softticks != self.ticks
    }

    /// Returns whether something is [held](Self::hold).
    pub fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Returns the number of ticks so far.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns by how many ticks softclock is behind.
    pub fn lag(&self) -> u64 {
        self.ticks - self.softticks
    }

    /// Returns the number of callouts that are set.
    pub fn len(&self) -> usize {
        self.wheel.len() + usize::from(self.found.is_some())
    }

    /// Returns whether no callout is set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of callouts in the hash table: those without a handle.
    pub fn hashed(&self) -> usize {
        self.hash.len()
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> CalloutStats {
        self.stats
    }

    fn set(&mut self, call: C, ticks: u64) -> (crate::TimerId, u32) {
        let words = call.into();
        let (id, slot) = self.slots.insert(Callout { call, words, links: Links::NONE });
        let due = self.ticks.saturating_add(ticks.max(1));
        self.wheel.set(at(self.ticks), slot, at(due));
        (id, slot)
    }

    fn unset(&mut self, slot: u32) -> Option<C> {
        if self.found.is_some_and(|(found, _)| found == slot) {
            self.found = None;
        } else {
            self.wheel.cancel(slot);
        }
        self.take(slot)
    }

    /// Takes a callout that is out of the wheel.
    fn take(&mut self, slot: u32) -> Option<C> {
        let links = self.slots.at(slot)?.links;
        self.hash.remove(links, &mut self.slots);
        self.slots.take(slot).map(|(_, callout)| callout.call)
    }

    /// Returns whether something is due; if so, takes the first out of the wheel.
    fn look(&mut self) -> bool {
        loop {
            match self.look_once() {
                Step::Fired(_) => return true,
                Step::MoreWork => {}
                Step::Done => return false,
            }
        }
    }

    /// Takes one step of the wheel, which may find a due callout.
    fn look_once(&mut self) -> Step<(u32, Timestamp)> {
        let turn = self.wheel.turn(at(self.ticks));
        let step = self.wheel.step(&turn);
        match step {
            Step::Fired((slot, due)) => self.found = Some((slot, due.as_nanos() >> TICK_SHIFT)),
            Step::MoreWork => self.stats.moves += 1,
            Step::Done => {}
        }
        step
    }
}

/// While softclock runs: nothing else runs it.
struct Held<'a, C>(&'a mut Callouts<C>);

impl<'a, C> Held<'a, C> {
    fn take(callouts: &'a mut Callouts<C>) -> Self {
        callouts.held += 1;
        Held(callouts)
    }
}

impl<C> Drop for Held<'_, C> {
    fn drop(&mut self) {
        self.0.held = self.0.held.saturating_sub(1);
    }
}

/// Returns the time of a tick, for the wheel. The last 128th of all ticks share one time, which never comes.
fn at(tick: u64) -> Timestamp {
    Timestamp::from_nanos(tick.saturating_mul(1 << TICK_SHIFT))
}

/// 128 ns, the least width of a slot. With narrower ticks, a slot would hold those of several, and would have
/// to be sorted when the first of them comes.
const TICK_SHIFT: u32 = 7;

#[cfg(test)]
mod tests;
