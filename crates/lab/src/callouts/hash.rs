//! The old interface on the new timers: `timeout` and `untimeout`, by function and argument.

use softtimers_core::bsd;

use super::{Callout, Callouts};

/// Callouts that are found by their function and argument.
#[derive(Debug)]
pub struct Hashed(bsd::Callouts<[usize; 2]>);

impl Default for Hashed {
    fn default() -> Self {
        Hashed(bsd::Callouts::new(0))
    }
}

impl Callouts for Hashed {
    type Name = Callout;

    fn set(&mut self, ticks: u64, callout: Callout) -> Callout {
        self.0.timeout(callout.into(), ticks);
        callout
    }

    fn cancel(&mut self, name: Callout) -> bool {
        self.0.untimeout(&name.into()).is_some()
    }

    fn tick(&mut self, due: &mut Vec<Callout>) {
        if self.0.tick() {
            due.extend(std::iter::from_fn(|| self.0.softclock()).map(Callout::from));
        }
    }
}
