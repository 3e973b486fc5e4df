//! `softtimers forward`: packets from one side to another, stable under overload.
//!
//! [`forwarder`](crate::forwarder) is the forwarder; this module has the flags, the file of rules, the metrics and the summary.

pub(crate) mod args;
mod exposition;
pub(crate) mod metrics;
mod rule_file;
mod run;
mod show;
