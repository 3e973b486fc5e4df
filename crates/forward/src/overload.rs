//! A receiver under overload: it is offered a rate by a sender in another process, and [`Point`] is the result.
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
mod receiver;
mod second;
mod stats;
mod trial;
mod window;

pub use filter::Filter;
pub use load::Offer;
pub use point::{FeedbackCounts, Livelock, Point};
pub use queue::{Queue, ROOM};
pub use receiver::Receiver;
pub use trial::{Bench, compute};
pub use window::{Busy, Window};
