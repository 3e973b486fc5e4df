//! `send`: paced UDP traffic.

pub(crate) mod args;
pub(crate) mod engine;
pub(crate) mod generate;
pub(crate) mod run;
mod show;
