//! The old interface on the new timers: function and argument are looked up in a table of handles.

use std::collections::HashMap;

use softtimers_core::TimerId;

use super::{Callout, Callouts, Handles};

/// Callouts that are found by their function and argument.
#[derive(Debug, Default)]
pub struct Hashed {
    timers: Handles,
    outstanding: HashMap<Callout, TimerId>,
}

impl Callouts for Hashed {
    type Name = Callout;

    fn set(&mut self, ticks: u64, callout: Callout) -> Callout {
        let id = self.timers.set(ticks, callout);
        self.outstanding.insert(callout, id);
        callout
    }

    fn cancel(&mut self, name: Callout) -> bool {
        self.outstanding.remove(&name).is_some_and(|id| self.timers.cancel(id))
    }

    fn tick(&mut self, due: &mut Vec<Callout>) {
        let from = due.len();
        self.timers.tick(due);
        for callout in &due[from..] {
            self.outstanding.remove(callout);
        }
    }
}
