//! `send`: paced UDP traffic.

pub(crate) mod args;
mod driver;
pub(crate) mod engine;
pub(crate) mod fields;
pub(crate) mod generate;
pub(crate) mod run;
pub(crate) mod show;
