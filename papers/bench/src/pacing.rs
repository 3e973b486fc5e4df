//! The paper's experiments with rate-based clocking on this machine, compared with the paper and an independent model.
//!
//! | section | of soft timers | question |
//! |---|---|---|
//! | `burst` | §5.6, Tables VIII and IX | which mean gap results from a burst interval, and what does a periodic timer lose? |
//! | `overhead` | §5.5, Tables VI and VII | what does pacing cost a saturated server, by each kind of timer? |
//! | `sources` | §5.4, Table V and figure 4 | which trigger states matter, and what would remain without them? |
//!
//! All contenders of a section take turns in one process. Figures are medians over the rounds; a section in which the
//! host or other programs took more than 5% of the CPUs is inconclusive, and so are its bars.

mod burst;
mod overhead;
pub mod reference;
mod sources;

use crate::bench::Section;

/// Whether to run few rounds: to see that it works, not to quote.
pub type Quick = bool;

/// The experiments that can be run separately.
pub const SECTIONS: [Section<Quick>; 3] =
    [("burst", burst::run), ("overhead", overhead::run), ("sources", sources::run)];
