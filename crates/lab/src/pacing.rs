//! The paper's experiments with rate-based clocking, on this machine, beside what the paper and an
//! independent model say.
//!
//! | section | of soft timers | question |
//! |---|---|---|
//! | `burst` | §5.6, Tables VIII and IX | which mean gap does a burst interval leave, and what does a periodic timer lose? |
//! | `overhead` | §5.5, Tables VI and VII | what does pacing cost a saturated server, by each kind of timer? |
//! | `sources` | §5.4, Table V and figure 4 | which trigger states matter, and what would be without them? |
//!
//! All contenders of a section take turns in one process. Figures are medians over the rounds; a section in which the
//! host or other programs took more than 5% of the CPUs is inconclusive, and its bars are.

mod burst;
mod overhead;
pub mod reference;
mod sources;

use crate::bench::Section;

/// Few rounds: to see that it works, not to quote.
pub type Quick = bool;

/// The experiments that can be run alone.
pub const SECTIONS: [Section<Quick>; 3] =
    [("burst", burst::run), ("overhead", overhead::run), ("sources", sources::run)];
