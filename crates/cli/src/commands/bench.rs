//! `softtimers bench`: what a receiver does under overload, measured on this machine.
//!
//! [`softtimers_load::overload`] runs a trial; this module decides which trials to run, and reports them.
//!
//! ```text
//!   search: a rate ─▶ trial ─▶ lost? halve : go on ─▶ MLFRR, confirmed by a longer trial ─▶ its multiples: a curve
//! ```

pub(crate) mod args;
mod plot;
pub(crate) mod run;
mod search;
mod show;
