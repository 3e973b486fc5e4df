//! The three timer facilities of the paper's test. The cost of each operation is in instructions, from Table
//! II.
//!
//! | | old: [`DeltaList`] | new: [`core::bsd`](softtimers_core::bsd) |
//! |---|---|---|
//! | hardclock | 34 + 11 *v* | 37 |
//! | softclock | 27 + 28 *e* | 27 + 20 *i* + 12 *k* + 54 *m* + 37 *n* |
//! | set, cancel by function and argument | 46 + 11 *t*, 45 + 11 *t* | 81, 80 + 11 *h* |
//! | set, cancel by handle | | 60, 55 |
//!
//! The letters are counted while the structures run: *t* timers passed in the list, *v* overdue ones, *h*
//! other timers in a chain of the hash table, *e*, *m*, *n* expired ones, *i* ticks that softclock was
//! behind. *k* counts timers down; this library's wheel cascades them instead, rarely, up to 52 in a step,
//! and a step has the cost of 52 *k*.

use softtimers_core::bsd::{Callouts, Handle};

use super::delta_list::{Callout, DeltaList};
use crate::choice::choices;
use crate::constants::Callout as Prices;

choices! {
    /// The kernel that has a facility.
    pub(super) enum Kernel {
        /// A sorted list of differences.
        Old = "old",
        /// The wheel, by function and argument.
        Hash = "hash",
        /// The wheel, by handle.
        Handles = "handles",
    }
}

/// One facility, with the costs of Table II.
#[derive(Debug)]
pub(super) struct Facility {
    structure: Structure,
    prices: Prices,
}

#[derive(Debug)]
enum Structure {
    /// A sorted list of differences.
    Old(DeltaList),
    /// The wheel, by function and argument.
    Hash(Callouts<Callout>),
    /// The wheel, by handle.
    Handles(Callouts<Callout>),
}

/// The identity by which a callout is found again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Call(Callout),
    Handle(Handle),
}

impl Facility {
    pub(super) fn new(kernel: Kernel, prices: &Prices) -> Self {
        let structure = match kernel {
            Kernel::Old => Structure::Old(DeltaList::default()),
            Kernel::Hash => Structure::Hash(Callouts::new(1)),
            Kernel::Handles => Structure::Handles(Callouts::new(1)),
        };
        Facility { structure, prices: *prices }
    }

    /// Sets a callout `ticks` ahead. Returns its identity, and the cost.
    pub(super) fn set(&mut self, ticks: u64, call: Callout) -> (Name, u64) {
        let of = self.prices;
        match &mut self.structure {
            Structure::Old(list) => {
                let before = list.steps();
                list.set(ticks, call);
                (Name::Call(call), of.list_set + of.list_passed * (list.steps() - before))
            }
            Structure::Hash(callouts) => {
                callouts.timeout(call, ticks);
                (Name::Call(call), of.hash_set)
            }
            Structure::Handles(callouts) => (Name::Handle(callouts.setcallout(call, ticks)), of.handle_set),
        }
    }

    /// Cancels a callout. Returns whether it was outstanding, and the cost.
    pub(super) fn cancel(&mut self, name: Name) -> (bool, u64) {
        let of = self.prices;
        match (&mut self.structure, name) {
            (Structure::Old(list), Name::Call(call)) => {
                let before = list.steps();
                (list.cancel(call), of.list_cancel + of.list_passed * (list.steps() - before))
            }
            (Structure::Hash(callouts), Name::Call(call)) => {
                let before = callouts.stats().passed;
                let was_set = callouts.untimeout(&call).is_some();
                (was_set, of.hash_cancel + of.hash_passed * (callouts.stats().passed - before))
            }
            (Structure::Handles(callouts), Name::Handle(handle)) => {
                (callouts.unsetcallout(handle).is_some(), of.handle_cancel)
            }
            _ => (false, 0),
        }
    }

    /// Takes a clock interrupt. Returns the initial cost of softclock, if it must run, and the cost of
    /// hardclock.
    pub(super) fn hardclock(&mut self) -> (Option<u64>, u64) {
        let of = self.prices;
        match &mut self.structure {
            Structure::Old(list) => {
                let overdue = list.hardclock();
                (list.is_due().then_some(of.softclock), of.list_hardclock + of.list_overdue * overdue)
            }
            Structure::Hash(callouts) | Structure::Handles(callouts) => {
                let before = callouts.stats().moves;
                let wanted = callouts.tick();
                let moved = callouts.stats().moves - before;
                (
                    wanted.then(|| of.softclock + of.wheel_behind * callouts.lag()),
                    of.wheel_hardclock + step(&of) * moved,
                )
            }
        }
    }

    /// Returns the next callout that is due, and the cost.
    pub(super) fn softclock(&mut self) -> (Option<Callout>, u64) {
        let of = self.prices;
        let each = match &self.structure {
            Structure::Old(_) => of.list_expired,
            Structure::Hash(_) => of.hash_expired,
            Structure::Handles(_) => of.handle_expired,
        };
        let before = self.moves();
        let call = match &mut self.structure {
            Structure::Old(list) => list.softclock(),
            Structure::Hash(callouts) | Structure::Handles(callouts) => callouts.softclock(),
        };
        (call, u64::from(call.is_some()) * each + (self.moves() - before) * step(&of))
    }

    /// Timers passed in searches so far: *t* or *h*.
    pub(super) fn passed(&self) -> u64 {
        match &self.structure {
            Structure::Old(list) => list.steps(),
            Structure::Hash(callouts) | Structure::Handles(callouts) => callouts.stats().passed,
        }
    }

    /// Cascade steps of the wheel so far.
    pub(super) fn moves(&self) -> u64 {
        match &self.structure {
            Structure::Old(_) => 0,
            Structure::Hash(callouts) | Structure::Handles(callouts) => callouts.stats().moves,
        }
    }
}

/// The cost of a step that cascades four chunks of 13 timers.
fn step(of: &Prices) -> u64 {
    of.wheel_traversed * 4 * 13
}
