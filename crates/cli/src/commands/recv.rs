//! `recv`: measures what arrived, and when.

pub(crate) mod args;
mod fields;
pub(crate) mod run;
mod show;
