//! The old list, as the simulator has it.

use softtimers_sim::callout::DeltaList;

use super::{Callout, Callouts};

impl Callouts for DeltaList {
    type Name = Callout;

    fn set(&mut self, ticks: u64, callout: Callout) -> Callout {
        DeltaList::set(self, ticks, callout.into());
        callout
    }

    fn cancel(&mut self, name: Callout) -> bool {
        DeltaList::cancel(self, name.into())
    }

    fn tick(&mut self, due: &mut Vec<Callout>) {
        self.hardclock();
        due.extend(std::iter::from_fn(|| self.softclock()).map(Callout::from));
    }
}
