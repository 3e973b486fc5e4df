//! `recv`: measures what arrived, and when.

pub(crate) mod args;
pub(crate) mod run;
mod show;
