//! `doctor`: what timers cost on this machine, and whether softtimers would help.
//!
//! It measures rather than guesses, on loopback only and without privileges: the cost of a timer's basic operations,
//! then the same paced stream by every method, from a loop that serves an echo server and from an idle one. Each busy
//! trial has its baseline, the same loop without pacing, right before or after it. Shorter comparisons with other numbers
//! of requests in a row say which kinds of programs gain. An independent receiver in another process judges the stream by
//! kernel timestamps.

pub(crate) mod args;
mod costs;
pub(crate) mod features;
mod programs;
mod range;
pub(crate) mod receive;
mod run;
mod show;
mod strip;
mod trial;
mod verdict;
