//! `send`: paced UDP traffic.

pub(crate) mod args;
pub(crate) mod engine;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod show;
