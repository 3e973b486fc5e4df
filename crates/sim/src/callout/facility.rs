//! The three timer facilities of the paper's test, each operation priced in instructions by Table II.
//!
//! | | old: [`DeltaList`] | new: [`core::bsd`](softtimers_core::bsd) |
//! |---|---|---|
//! | hardclock | 34 + 11 *v* | 37 |
//! | softclock | 27 + 28 *e* | 27 + 20 *i* + 12 *k* + 54 *m* + 37 *n* |
//! | set, cancel by function and argument | 46 + 11 *t*, 45 + 11 *t* | 81, 80 + 11 *h* |
//! | set, cancel by handle | | 60, 55 |
//!
//! The letters are counted while the structures run: *t* timers passed by in the list, *v* that were overdue, *h* in a
//! chain of the hash table that were others, *e*, *m*, *n* that expired, *i* ticks that softclock was behind. Our
//! wheel does not count timers down, which is *k*: it brings them nearer, seldom, up to 52 in a step, and a step has the
//! price of 52 *k*.

use softtimers_core::bsd::{Callouts, Handle};

use super::delta_list::{Callout, DeltaList};

/// One of them.
#[derive(Debug)]
pub(super) enum Facility {
    /// A sorted list of differences.
    Old(DeltaList),
    /// The wheel, by function and argument.
    Hash(Callouts<Callout>),
    /// The wheel, by handle.
    Handles(Callouts<Callout>),
}

/// What finds a callout again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Call(Callout),
    Handle(Handle),
}

impl Facility {
    /// `old`, `hash` or `handles`.
    pub(super) fn new(kernel: &str) -> Self {
        match kernel {
            "old" => Facility::Old(DeltaList::default()),
            "hash" => Facility::Hash(Callouts::new(1)),
            _ => Facility::Handles(Callouts::new(1)),
        }
    }

    /// Sets a callout so many ticks ahead. Its name, and the price.
    pub(super) fn set(&mut self, ticks: u64, call: Callout) -> (Name, u64) {
        match self {
            Facility::Old(list) => {
                let before = list.steps();
                list.set(ticks, call);
                (Name::Call(call), 46 + 11 * (list.steps() - before))
            }
            Facility::Hash(callouts) => {
                callouts.timeout(call, ticks);
                (Name::Call(call), 81)
            }
            Facility::Handles(callouts) => (Name::Handle(callouts.setcallout(call, ticks)), 60),
        }
    }

    /// Cancels a callout. Whether it was outstanding, and the price.
    pub(super) fn cancel(&mut self, name: Name) -> (bool, u64) {
        match (self, name) {
            (Facility::Old(list), Name::Call(call)) => {
                let before = list.steps();
                (list.cancel(call), 45 + 11 * (list.steps() - before))
            }
            (Facility::Hash(callouts), Name::Call(call)) => {
                let before = callouts.stats().passed;
                let was_set = callouts.untimeout(&call).is_some();
                (was_set, 80 + 11 * (callouts.stats().passed - before))
            }
            (Facility::Handles(callouts), Name::Handle(handle)) => {
                (callouts.unsetcallout(handle).is_some(), 55)
            }
            _ => (false, 0),
        }
    }

    /// A clock interrupt. Of softclock, if it is wanted, what it costs to begin; and the price.
    pub(super) fn hardclock(&mut self) -> (Option<u64>, u64) {
        match self {
            Facility::Old(list) => {
                let overdue = list.hardclock();
                (list.is_due().then_some(27), 34 + 11 * overdue)
            }
            Facility::Hash(callouts) | Facility::Handles(callouts) => {
                let before = callouts.stats().moves;
                let wanted = callouts.tick();
                let moved = callouts.stats().moves - before;
                (wanted.then(|| 27 + 20 * callouts.lag()), 37 + MOVE * moved)
            }
        }
    }

    /// The next callout that is due, and the price.
    pub(super) fn softclock(&mut self) -> (Option<Callout>, u64) {
        let each = match self {
            Facility::Old(_) => 28,
            Facility::Hash(_) => 54,
            Facility::Handles(_) => 37,
        };
        let before = self.moves();
        let call = match self {
            Facility::Old(list) => list.softclock(),
            Facility::Hash(callouts) | Facility::Handles(callouts) => callouts.softclock(),
        };
        (call, u64::from(call.is_some()) * each + (self.moves() - before) * MOVE)
    }

    /// Timers passed by in searches so far: *t* or *h*.
    pub(super) fn passed(&self) -> u64 {
        match self {
            Facility::Old(list) => list.steps(),
            Facility::Hash(callouts) | Facility::Handles(callouts) => callouts.stats().passed,
        }
    }

    /// Steps so far in which the wheel brought timers nearer.
    pub(super) fn moves(&self) -> u64 {
        match self {
            Facility::Old(_) => 0,
            Facility::Hash(callouts) | Facility::Handles(callouts) => callouts.stats().moves,
        }
    }
}

/// Of a step that brings four chunks of 13 timers nearer, at Table II's 12 for each that is traversed.
const MOVE: u64 = 12 * 4 * 13;
