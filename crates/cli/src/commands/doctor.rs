//! `doctor`: what timers cost on this machine, and whether softtimers would help.
//!
//! It measures rather than guesses, on loopback only and without privileges: the cost of the
//! operations that a timer is made of, then the same paced stream by every method, from a loop that
//! is busy with an echo server and from one that is idle. Each busy trial has its baseline, the same
//! loop without pacing, right before or after it. The stream is judged by an independent
//! receiver's kernel timestamps, in another process.

pub(crate) mod args;
mod costs;
pub(crate) mod features;
mod range;
mod run;
mod show;
mod strip;
mod trial;
mod verdict;
