//! Measures a receiver under overload: a sender in another process offers a rate, and [`Point`] is the result.
//!
//! The highest rate without loss (the MLFRR of the livelock paper, §4.2) is a receiver's capacity. Its throughput
//! beyond that rate shows whether it is stable under overload, and that is where receivers differ:
//!
//! ```text
//!   delivered │     ╱▔▔▔▔▔▔▔▔  stable: hybrid, poll, hip, interrupt
//!             │   ╱│ ╲
//!             │ ╱  │   ╲______ livelock: naive
//!             └────┴──────────▶ offered
//!                  MLFRR
//! ```
//!
//! - `trial`: one [`Receiver`], offered one rate by `load`; [`Bench`] runs trials one after the other;
//! - `polled` and `naive`: the receivers; [`Queue`], and `second` behind it; [`Filter`]: its work;
//! - `beat`: a timer that competes with the input; [`Window`]: the measured time; `quiet`: when the trial is over;
//! - `stats`: the counts of all stages; `point`: the result made of them.

mod beat;
mod filter;
mod load;
mod naive;
mod point;
mod polled;
mod queue;
mod quiet;
mod receiver;
mod second;
mod stats;
mod trial;
mod window;

pub use filter::Filter;
pub use load::Offer;
pub use point::{DropCounts, FeedbackCounts, Livelock, Point};
pub use queue::{Queue, ROOM};
pub use receiver::Receiver;
pub use trial::{Bench, compute};
pub use window::{Busy, Window};
