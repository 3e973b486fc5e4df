//! The three ways of keeping callouts that Costello and Varghese compare (Table I): the sorted list
//! with differential times of older BSD kernels, timers found again by a hash of function and argument, and
//! timers with handles.
//!
//! ```text
//!   delta list     head ─▶ +3 ─▶ +0 ─▶ +9 ─▶ …      set and cancel walk: linear
//!   hash           (function, argument) ─▶ handle ─▶ wheel      a miss costs what a hit costs
//!   handles                                handle ─▶ wheel
//! ```

mod handles;
mod hash;
mod list;

pub use handles::Handles;
pub use hash::Hashed;
pub use softtimers_sim::callout::DeltaList;

/// A function and its argument, as numbers: nobody calls them here.
pub type Callout = (usize, usize);

/// Callouts at ticks from now on.
pub trait Callouts: Default {
    /// What finds a callout again.
    type Name: Copy;

    /// Sets a callout so many ticks ahead.
    fn set(&mut self, ticks: u64, callout: Callout) -> Self::Name;

    /// Cancels a callout: whether it was outstanding.
    fn cancel(&mut self, name: Self::Name) -> bool;

    /// A tick passes: what is due, in order.
    fn tick(&mut self, due: &mut Vec<Callout>);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_in_order<C: Callouts>() {
        let mut callouts = C::default();
        let names: Vec<_> = [(5, 50), (2, 20), (5, 51), (1, 10), (2, 21)]
            .into_iter()
            .map(|(ticks, argument)| callouts.set(ticks, (1, argument)))
            .collect();
        assert!(callouts.cancel(names[1]));
        assert!(!callouts.cancel(names[1]));
        let mut came = Vec::new();
        for tick in 1..=6 {
            let mut due = Vec::new();
            callouts.tick(&mut due);
            came.extend(due.into_iter().map(|(_, argument)| (tick, argument)));
        }
        assert_eq!(came, [(1, 10), (2, 21), (5, 50), (5, 51)]);
        assert!(!callouts.cancel(names[0]), "it has come");
    }

    #[test]
    fn all_three_do_the_same() {
        comes_in_order::<DeltaList>();
        comes_in_order::<Hashed>();
        comes_in_order::<Handles>();
    }
}
