//! What a receiver does under overload: it is offered a rate by a sender in another process, and [`Point`] is what came of it.
//!
//! The highest rate at which nothing is lost (the MLFRR of the livelock paper, §4.2) says how much a receiver can do. What
//! it delivers beyond that says whether it can be relied on, and that is where receivers differ:
//!
//! ```text
//!   delivered │     ╱▔▔▔▔▔▔▔▔  realisable: hybrid, poll, hip, interrupt
//!             │   ╱│ ╲
//!             │ ╱  │   ╲______ livelock: naive
//!             └────┴──────────▶ offered
//!                  MLFRR
//! ```
//!
//! - `trial`: one [`Receiver`], offered one rate by `load`; [`Bench`] makes one after the other;
//! - `polled` and `naive`: the receivers; [`Queue`], and `second` behind it; [`Filter`]: its work;
//! - `beat`: a timer that wants to fire meanwhile; [`Window`]: the time that counts; `quiet`: when it is over;
//! - `stats`: the one account, to which each stage adds its own; `point`: what is told of it.

mod beat;
mod filter;
mod load;
mod naive;
mod point;
mod polled;
mod queue;
mod quiet;
mod second;
mod stats;
mod trial;
mod window;

use softtimers::Percent;

use crate::mode::Looking;

pub use filter::Filter;
pub use load::Offer;
pub use point::{FeedbackCounts, Livelock, Point};
pub use queue::{Queue, ROOM};
pub use trial::{Bench, compute};
pub use window::{Busy, Window};

/// A receiver to be measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Receiver {
    /// When it looks.
    pub looking: Looking,
    /// One thread, or two with a queue between.
    pub stages: u8,
    /// Rules of the filter.
    pub rules: u32,
    /// The share of a CPU that input may have.
    pub cpu_limit: Option<Percent>,
    /// The nice value of the second stage.
    pub nice: u8,
    /// A computation with the nice value 19 wants its CPU, too.
    pub computes: bool,
    /// What is asked for, in bytes.
    pub recv_buffer: usize,
}
