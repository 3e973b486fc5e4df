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
//! host or other programs took more than 5% of the processors is inconclusive, and its bars are.

mod burst;
mod overhead;
pub mod reference;
mod sources;

use clap::Parser;

use crate::bench::{self, Asked, Done, Section};

/// The pacing experiments of the soft timers paper, live.
#[derive(Parser, Debug)]
#[command(name = "pacing", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
}

/// Few rounds: to see that it works, not to quote.
type Quick = bool;

const SECTIONS: [Section<Quick>; 3] =
    [("burst", burst::run), ("overhead", overhead::run), ("sources", sources::run)];

/// Makes the experiments, and prints and writes what they find; after Ctrl-C what there is.
///
/// # Errors
/// What keeps a run from starting or breaks it off; a file that is not written.
pub fn measure(given: &[String]) -> Done {
    let Arguments { asked } = bench::parse("pacing", given, &SECTIONS);
    asked.run("pacing", "", &SECTIONS, &asked.quick)
}
