//! `softtimers bench`: what a receiver does under overload, measured on this machine.
//!
//! A trial is the affair of [`softtimers_forward::overload`]; here is which trials are made, and what is told of them.
//!
//! ```text
//!   search: a rate ─▶ trial ─▶ lost? halve : go on ─▶ MLFRR, confirmed by a longer trial ─▶ its multiples: a curve
//! ```

pub(crate) mod args;
mod plot;
pub(crate) mod run;
mod search;
mod show;
